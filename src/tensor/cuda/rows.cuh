// Kernels that compute each row of an array by a group of threads: one thread where rows are short, a block
// where they are long, else a warp.
// Sums have an order that depends on the shape alone, so that every run gives the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/cuda/launch.h"

namespace sluice::cuda {

struct Plus {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {  // NaN counts as smaller than any number
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Join returns to every thread of the group the values of all, joined by `op`, which is commutative. Every
// thread of the group calls it.
struct ThreadGroup {
  static constexpr int kSize = 1, kGroups = kThreads;  // threads of a group, groups of a block
  __device__ static int Place() { return 0; }
  __device__ static int Number() { return static_cast<int>(threadIdx.x); }
  template <typename T, typename Op>
  __device__ static T Join(T value, Op) {
    return value;
  }
};
struct WarpGroup {
  static constexpr int kSize = kWarp, kGroups = kThreads / kWarp;
  __device__ static int Place() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static int Number() { return static_cast<int>(threadIdx.x) / kWarp; }
  template <typename T, typename Op>
  __device__ static T Join(T value, Op op) {
    for (int bits = kWarp / 2; bits > 0; bits /= 2)
      value = op(value, __shfl_xor_sync(kWholeWarp, value, bits));
    return value;
  }
};
struct BlockGroup {
  static constexpr int kSize = kThreads, kGroups = 1;
  __device__ static int Place() { return static_cast<int>(threadIdx.x); }
  __device__ static int Number() { return 0; }
  template <typename T, typename Op>
  __device__ static T Join(T value, Op op) {
    __shared__ T parts[kThreads / kWarp];
    value = WarpGroup::Join(value, op);
    __syncthreads();  // the parts of the call before have been read
    if (WarpGroup::Place() == 0) parts[WarpGroup::Number()] = value;
    __syncthreads();
    T all = parts[0];
    for (int i = 1; i < kThreads / kWarp; ++i) all = op(all, parts[i]);
    return all;
  }
};

template <typename Group, typename Work>
__global__ void RowsKernel(int64_t rows, Work work) {
  const int64_t step = int64_t{gridDim.x} * Group::kGroups;
  for (int64_t row = int64_t{blockIdx.x} * Group::kGroups + Group::Number(); row < rows; row += step)
    work(Group{}, row);
}

template <typename Group, typename Work>
void ForRowsBy(cudaStream_t stream, int64_t rows, Work work) {
  Launch(stream, (rows + Group::kGroups - 1) / Group::kGroups, RowsKernel<Group, Work>, rows, work);
}

// Calls work(group, row) in every thread of a group, for each row. `columns` decides how large a group is.
template <typename Work>
void ForRows(cudaStream_t stream, int64_t rows, int64_t columns, Work work) {
  constexpr int64_t kMostForThread = 16, kMostForWarp = 1024;
  if (rows == 0) return;
  if (columns <= kMostForThread) return ForRowsBy<ThreadGroup>(stream, rows, work);
  if (columns <= kMostForWarp) return ForRowsBy<WarpGroup>(stream, rows, work);
  ForRowsBy<BlockGroup>(stream, rows, work);
}

// --- For `work` ---

// Returns the sum of term(i) over [0, n).
template <typename Group, typename Term>
__device__ double SumOver(int64_t n, Term term) {
  double sum = 0;
  for (int64_t i = Group::Place(); i < n; i += Group::kSize) sum += static_cast<double>(term(i));
  return Group::Join(sum, Plus{});
}

// Returns the largest of x[i], -infinity if all are NaN.
template <typename Group>
__device__ float LargestOf(const float* x, int64_t n) {
  float largest = -HUGE_VALF;
  for (int64_t i = Group::Place(); i < n; i += Group::kSize) largest = fmaxf(largest, x[i]);
  return Group::Join(largest, Larger{});
}

}  // namespace sluice::cuda
