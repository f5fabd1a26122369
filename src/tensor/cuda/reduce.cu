// Sums and means, and what adds or spreads a row over many rows. Sums are added up in float64.
#include <algorithm>

#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/sum.cuh"

namespace sluice::cuda {
namespace {

struct ElementTerm {
  const float* a;
  int64_t columns;
  __device__ double operator()(int64_t row, int64_t column) const {
    return static_cast<double>(a[row * columns + column]);
  }
};
struct StoreSum {
  float* sums;
  __device__ void operator()(int64_t column, double sum) const { sums[column] = static_cast<float>(sum); }
};

// Returns the factor that makes a mean of a sum over the steps.
float ShareOfStep(int64_t steps) {
  return 1.0f / static_cast<float>(std::max<int64_t>(steps, 1));
}

template <typename Index>
struct AddRowOp {
  const float* values;
  Index columns;
  __device__ float operator()(int64_t i, float out) const {
    return out + values[static_cast<Index>(i) % columns];
  }
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

void CudaKernels::SumOfRows(const SumOfRowsArgs& args) {
  const int64_t rows = args.rows, columns = args.columns;
  if (columns == 0) return;
  if (rows == 0) return Fill({.dtype = DType::kFloat32, .out = args.sums, .value = 0, .n = columns});
  auto* const parts = workspace_.Take<double>(PartsOfColumns(rows, columns));
  SumColumns(stream_, parts, rows, columns, ElementTerm{args.a, columns}, StoreSum{args.sums});
}

void CudaKernels::AddToRows(const AddToRowsArgs& args) {
  const int64_t n = args.rows * args.columns;
  WithIndex(n, [&]<typename Index>(Index) {
    Map(stream_, n, args.out, AddRowOp<Index>{args.values, static_cast<Index>(args.columns)},
        static_cast<const float*>(args.out));
  });
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
