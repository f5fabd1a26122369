// Sums over the rows of [rows, columns], one for each column, in float64 and in an order that depends on the
// shape alone.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "tensor/cuda/launch.h"
#include "tensor/cuda/workspace.h"

namespace sluice::cuda {

// Two sums at once.
struct Pair {
  double first, second;
  __device__ Pair& operator+=(const Pair& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

inline constexpr int64_t kRowsOfPiece = 1024;
inline int64_t PiecesOf(int64_t rows) {
  return (rows + kRowsOfPiece - 1) / kRowsOfPiece;
}

// Calls finish(piece, column, sum of term(row, column) over the piece's rows). A block adds up tiles of
// `width` columns and one piece: as many rows at once as it has threads for, and these rows' sums by halves.
template <typename Sum, typename Term, typename Finish>
__global__ void SumColumnsKernel(int64_t rows, int64_t columns, int width, Term term, Finish finish) {
  __shared__ Sum parts[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % width, line = static_cast<int>(threadIdx.x) / width;
  const int lines = kThreads / width;
  const int64_t across = (columns + width - 1) / width, pieces = (rows + kRowsOfPiece - 1) / kRowsOfPiece;
  for (int64_t tile = blockIdx.x; tile < across * pieces; tile += gridDim.x) {
    const int64_t column = tile % across * width + lane, piece = tile / across;
    const int64_t begin = piece * kRowsOfPiece,
                  end = begin + kRowsOfPiece < rows ? begin + kRowsOfPiece : rows;
    Sum sum{};
    if (column < columns) {
      for (int64_t row = begin + line; row < end; row += lines) sum += term(row, column);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = lines / 2; half > 0; half /= 2) {
      if (line < half) parts[threadIdx.x] += parts[static_cast<int>(threadIdx.x) + half * width];
      __syncthreads();
    }
    if (line == 0 && column < columns) finish(piece, column, parts[lane]);
  }
}

// Sums of pieces: writes them, and reads them as terms of further sums.
template <typename Sum>
struct PieceSums {
  Sum* sums;
  int64_t columns;
  __device__ void operator()(int64_t piece, int64_t column, const Sum& sum) const {
    sums[piece * columns + column] = sum;
  }
};
template <typename Sum>
struct PieceTerm {
  const Sum* sums;
  int64_t columns;
  __device__ const Sum& operator()(int64_t row, int64_t column) const { return sums[row * columns + column]; }
};
template <typename Finish>
struct WithoutPiece {
  Finish finish;
  template <typename Sum>
  __device__ void operator()(int64_t, int64_t column, const Sum& sum) const {
    finish(column, sum);
  }
};

template <typename Sum, typename Term, typename Finish>
void LaunchSumColumns(cudaStream_t stream, int64_t rows, int64_t columns, Term term, Finish finish) {
  const int width = columns < kWarp ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(columns))) : kWarp;
  Launch(stream, (columns + width - 1) / width * PiecesOf(rows), SumColumnsKernel<Sum, Term, Finish>, rows,
         columns, width, term, finish);
}

// Returns how many elements of type Sum SumColumns needs as memory.
inline size_t PartsOfColumns(int64_t rows, int64_t columns) {
  const int64_t pieces = PiecesOf(rows);
  return pieces == 1 ? 0 : static_cast<size_t>((pieces + PiecesOf(pieces)) * columns);
}

// Calls finish(column, sum of term(row, column) over all rows), which returns a Sum, for each column; there
// is at least one row. Sums of pieces, in `parts`, are summed in the same way until one piece is left.
template <typename Sum, typename Term, typename Finish>
void SumColumns(cudaStream_t stream, Sum* parts, int64_t rows, int64_t columns, Term term, Finish finish) {
  if (columns == 0) return;
  int64_t pieces = PiecesOf(rows);
  if (pieces == 1) return LaunchSumColumns<Sum>(stream, rows, columns, term, WithoutPiece<Finish>{finish});
  LaunchSumColumns<Sum>(stream, rows, columns, term, PieceSums<Sum>{parts, columns});
  Sum* next = parts + pieces * columns;
  for (; pieces > kRowsOfPiece; pieces = PiecesOf(pieces)) {
    LaunchSumColumns<Sum>(stream, pieces, columns, PieceTerm<Sum>{parts, columns},
                          PieceSums<Sum>{next, columns});
    std::swap(parts, next);
  }
  LaunchSumColumns<Sum>(stream, pieces, columns, PieceTerm<Sum>{parts, columns},
                        WithoutPiece<Finish>{finish});
}

}  // namespace sluice::cuda
