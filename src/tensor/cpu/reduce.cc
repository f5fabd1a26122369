#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {

// Adds up in double, since there may be as many rows as pixels, for 64 columns at a time.
SLUICE_SIMD void SumRows(const float* a, float* out, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t count = std::min(kBlock, columns - first);
    double sums[kBlock] = {};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t j = 0; j < count; ++j) sums[j] += a[row * columns + first + j];
    }
    for (int64_t j = 0; j < count; ++j) out[first + j] = static_cast<float>(sums[j]);
  }
}

namespace {

// Returns the factor that makes a mean of a sum over the steps.
float ShareOfStep(int64_t steps) {
  return 1.0f / static_cast<float>(std::max<int64_t>(steps, 1));
}

}  // namespace

// Adds up in double.
void CpuKernels::Sum(const SumArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* a = args.a + row * args.columns;
    double sum = 0;
    for (int64_t i = 0; i < args.columns; ++i) sum += a[i];
    args.sums[row] = static_cast<float>(sum);
  }
}

void CpuKernels::SumOfRows(const SumOfRowsArgs& args) {
  SumRows(args.a, args.sums, args.rows, args.columns);
}

void CpuKernels::AddToRows(const AddToRowsArgs& args) {
  const int64_t columns = args.columns;
  ParallelFor(args.rows, PiecesWorthAThread(columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      float* out = args.out + row * columns;
      cpu::Combine(1, out, 1, args.values, out, columns);
    }
  });
}

void CpuKernels::FillRows(const FillRowsArgs& args) {
  const int64_t columns = args.columns;
  ParallelFor(args.rows, PiecesWorthAThread(columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) std::fill_n(args.out + row * columns, columns, args.values[row]);
  });
}

void CpuKernels::MeanOfSteps(const MeanOfStepsArgs& args) {
  const float share = ShareOfStep(args.steps);
  const int64_t steps = args.steps, columns = args.columns;
  ParallelFor(args.n, PiecesWorthAThread(steps * columns), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      float* out = args.out + i * columns;
      SumRows(args.x + i * steps * columns, out, steps, columns);
      cpu::Affine(out, share, 0, out, columns);
    }
  });
}

void CpuKernels::MeanOfStepsBackward(const MeanOfStepsBackwardArgs& args) {
  const float share = ShareOfStep(args.steps);
  const int64_t steps = args.steps, columns = args.columns;
  ParallelFor(args.n * steps, PiecesWorthAThread(columns), [&](int64_t i, int64_t end) {
    for (; i < end; ++i)
      cpu::Affine(args.grad + i / steps * columns, share, 0, args.grad_x + i * columns, columns);
  });
}

}  // namespace sluice::cpu
