// Sums and means, and what adds or spreads a row over many rows. Sums are added up in float64.
#include <algorithm>
#include <bit>

#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/sum.cuh"

namespace sluice::cuda {
namespace {

constexpr int64_t kRowsOfPiece = 1024;

// sums[piece, j] is the sum of a[i, j] over the piece's rows. A block adds up tiles of `width` columns and
// one piece: as many rows at once as it has threads for, and these rows' sums by halves.
template <typename T, typename Out>
__global__ void SumColumnsKernel(const T* a, int64_t rows, int64_t columns, int width, Out* sums) {
  __shared__ double parts[kThreads];
  const int lane = static_cast<int>(threadIdx.x) % width, line = static_cast<int>(threadIdx.x) / width;
  const int lines = kThreads / width;
  const int64_t across = (columns + width - 1) / width, pieces = (rows + kRowsOfPiece - 1) / kRowsOfPiece;
  for (int64_t tile = blockIdx.x; tile < across * pieces; tile += gridDim.x) {
    const int64_t column = tile % across * width + lane, piece = tile / across;
    const int64_t begin = piece * kRowsOfPiece,
                  end = begin + kRowsOfPiece < rows ? begin + kRowsOfPiece : rows;
    double sum = 0;
    if (column < columns) {
      for (int64_t row = begin + line; row < end; row += lines)
        sum += static_cast<double>(a[row * columns + column]);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = lines / 2; half > 0; half /= 2) {
      if (line < half) parts[threadIdx.x] += parts[static_cast<int>(threadIdx.x) + half * width];
      __syncthreads();
    }
    if (line == 0 && column < columns) sums[piece * columns + column] = static_cast<Out>(parts[lane]);
  }
}

int64_t PiecesOf(int64_t rows) {
  return (rows + kRowsOfPiece - 1) / kRowsOfPiece;
}

template <typename T, typename Out>
void SumColumns(cudaStream_t stream, const T* a, int64_t rows, int64_t columns, Out* sums) {
  const int width = columns < kWarp ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(columns))) : kWarp;
  Launch(stream, (columns + width - 1) / width * PiecesOf(rows), SumColumnsKernel<T, Out>, a, rows, columns,
         width, sums);
}

// Returns the factor that makes a mean of a sum over the steps.
float ShareOfStep(int64_t steps) {
  return 1.0f / static_cast<float>(std::max<int64_t>(steps, 1));
}

struct AddRowOp {
  const float* values;
  int64_t columns;
  __device__ float operator()(int64_t i, float out) const { return out + values[i % columns]; }
};
struct FillRowOp {
  const float* values;
  int64_t columns;
  __device__ float operator()(int64_t i) const { return values[i / columns]; }
};
struct MeanOp {
  const float* x;
  int64_t steps, columns;
  float share;
  __device__ float operator()(int64_t i) const {
    const float* const first = x + i / columns * steps * columns + i % columns;
    double sum = 0;
    for (int64_t step = 0; step < steps; ++step) sum += static_cast<double>(first[step * columns]);
    return static_cast<float>(sum) * share;
  }
};
struct MeanBackwardOp {
  const float* grad;
  int64_t steps, columns;
  float share;
  __device__ float operator()(int64_t i) const {
    return grad[i / (steps * columns) * columns + i % columns] * share;
  }
};

}  // namespace

void CudaKernels::Sum(const SumArgs& args) {
  SumEachRow(stream_, workspace_, args.a, args.rows, args.columns, args.sums, Itself{});
}

// Sums of pieces are summed in the same way, until one piece is left.
void CudaKernels::SumOfRows(const SumOfRowsArgs& args) {
  const int64_t columns = args.columns;
  if (columns == 0) return;
  if (args.rows == 0) return Fill({.dtype = DType::kFloat32, .out = args.sums, .value = 0, .n = columns});
  int64_t pieces = PiecesOf(args.rows);
  if (pieces == 1) return SumColumns(stream_, args.a, args.rows, columns, args.sums);
  auto* sums = workspace_.Take<double>(static_cast<size_t>((pieces + PiecesOf(pieces)) * columns));
  SumColumns(stream_, args.a, args.rows, columns, sums);
  double* next = sums + pieces * columns;
  for (; pieces > kRowsOfPiece; pieces = PiecesOf(pieces)) {
    SumColumns(stream_, sums, pieces, columns, next);
    std::swap(sums, next);
  }
  SumColumns(stream_, sums, pieces, columns, args.sums);
}

void CudaKernels::AddToRows(const AddToRowsArgs& args) {
  Map(stream_, args.rows * args.columns, args.out, AddRowOp{args.values, args.columns},
      static_cast<const float*>(args.out));
}

void CudaKernels::FillRows(const FillRowsArgs& args) {
  Map(stream_, args.rows * args.columns, args.out, FillRowOp{args.values, args.columns});
}

void CudaKernels::MeanOfSteps(const MeanOfStepsArgs& args) {
  Map(stream_, args.n * args.columns, args.out,
      MeanOp{args.x, args.steps, args.columns, ShareOfStep(args.steps)});
}

void CudaKernels::MeanOfStepsBackward(const MeanOfStepsBackwardArgs& args) {
  Map(stream_, args.n * args.steps * args.columns, args.grad_x,
      MeanBackwardOp{args.grad, args.steps, args.columns, ShareOfStep(args.steps)});
}

}  // namespace sluice::cuda
