// Sums in float64 whose terms are added in an order that depends on the shape alone: the same bits in every
// run.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.h"
#include "tensor/cuda/workspace.h"

namespace sluice::cuda {

// Returns to the first thread of each warp the sum of the warp's values. Every thread of the warp calls it.
__device__ inline double SumOfWarp(double value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_down_sync(kWholeWarp, value, static_cast<unsigned>(offset));
  return value;
}

// Returns to thread 0 the sum of the block's values. Every thread of the block calls it.
__device__ inline double SumOfBlock(double value) {
  __shared__ double sums[kThreads / kWarp];
  value = SumOfWarp(value);
  __syncthreads();  // thread 0 has read the sums of the call before
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

struct Itself {
  template <typename T>
  __device__ double operator()(T value) const {
    return static_cast<double>(value);
  }
};

// sums[row, piece] is the sum of term(a[row, j]) over the piece's columns. Each block adds up pieces.
template <typename T, typename Out, typename Term>
__global__ void SumPiecesKernel(const T* a, int64_t rows, int64_t columns, int64_t length, int64_t pieces,
                                Out* sums, Term term) {
  for (int64_t piece = blockIdx.x; piece < rows * pieces; piece += gridDim.x) {
    const T* const row = a + piece / pieces * columns;
    const int64_t begin = piece % pieces * length;
    const int64_t end = begin + length < columns ? begin + length : columns;
    double sum = 0;
    for (int64_t j = begin + threadIdx.x; j < end; j += kThreads) sum += term(row[j]);
    sum = SumOfBlock(sum);
    if (threadIdx.x == 0) sums[piece] = static_cast<Out>(sum);
  }
}

// sums[row] is the sum of term(a[row, j]) over the columns. Each thread adds up rows.
template <typename T, typename Out, typename Term>
__global__ void SumShortRowsKernel(const T* a, int64_t rows, int64_t columns, Out* sums, Term term) {
  const int64_t width = int64_t{gridDim.x} * kThreads;
  for (int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x; row < rows; row += width) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += term(a[row * columns + j]);
    sums[row] = static_cast<Out>(sum);
  }
}

// sums[row] is the sum of term(a[row, j]) over the columns.
template <typename T, typename Out, typename Term>
void SumEachRow(cudaStream_t stream, Workspace& workspace, const T* a, int64_t rows, int64_t columns,
                Out* sums, Term term) {
  constexpr int64_t kLength = 32'768;  // columns of a piece
  if (rows == 0) return;
  if (columns <= kWarp) {
    return Launch(stream, (rows + kThreads - 1) / kThreads, SumShortRowsKernel<T, Out, Term>, a, rows,
                  columns, sums, term);
  }
  const int64_t pieces = (columns + kLength - 1) / kLength;
  if (pieces == 1) {
    return Launch(stream, rows, SumPiecesKernel<T, Out, Term>, a, rows, columns, kLength, int64_t{1}, sums,
                  term);
  }
  auto* const parts = workspace.Take<double>(static_cast<size_t>(rows * pieces));
  Launch(stream, rows * pieces, SumPiecesKernel<T, double, Term>, a, rows, columns, kLength, pieces, parts,
         term);
  Launch(stream, rows, SumPiecesKernel<double, Out, Itself>, parts, rows, pieces, pieces, int64_t{1}, sums,
         Itself{});
}

}  // namespace sluice::cuda
