// Kernels that compute each element of an array from the elements of others at the same place (Map), or call
// a function for each number (ForEach).
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.h"

namespace sluice::cuda {

// Each thread loads this many elements, a grid's width apart, before it stores one: so many loads are under
// way, and neighbours of a warp read neighbours in memory wherever a view begins.
inline constexpr int kUnroll = 4;

template <typename Op, typename Out, typename... In>
__global__ void MapKernel(int64_t n, Out* out, Op op, const In*... in) {
  const int64_t width = int64_t{gridDim.x} * kThreads;
  for (int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x; first < n; first += kUnroll * width) {
    Out results[kUnroll] = {};
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * width;
      if (at < n) results[i] = op(at, in[at]...);
    }
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = first + i * width;
      if (at < n) out[at] = results[i];
    }
  }
}

// out[i] = op(i, in[i]...) for i in [0, n). `out` may be one of the inputs.
template <typename Op, typename Out, typename... In>
void Map(cudaStream_t stream, int64_t n, Out* out, Op op, const In*... in) {
  if (n == 0) return;
  const int64_t each = int64_t{kThreads} * kUnroll;
  Launch(stream, (n + each - 1) / each, MapKernel<Op, Out, In...>, n, out, op, in...);
}

template <typename Op>
__global__ void ForEachKernel(int64_t n, Op op) {
  const int64_t width = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += width) op(i);
}

// Calls op(i) for i in [0, n).
template <typename Op>
void ForEach(cudaStream_t stream, int64_t n, Op op) {
  if (n > 0) Launch(stream, (n + kThreads - 1) / kThreads, ForEachKernel<Op>, n, op);
}

// Calls call(Index{}) with the type in which numbers up to n are divided: a division of 64 bits takes several
// times as long.
template <typename Call>
void WithIndex(int64_t n, Call&& call) {
  if (n <= INT32_MAX) return call(uint32_t{});
  call(int64_t{});
}

}  // namespace sluice::cuda
