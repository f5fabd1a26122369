// Losses that compare a prediction with a label element by element, and their gradients: one loop for each
// kind of RowLossShape, over the formulas of formulas/row_loss.h. It owns nothing. Invariant: one thread sums
// a row, in an order that depends on its length alone, so the number of threads changes no bit.
// autograd/ops/loss.cc calls the methods, in work on the stream's thread; the rows are divided among the
// threads of the context's team.
#include "tensor/formulas/row_loss.h"

#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

namespace f = formulas;

SLUICE_SIMD void Squares(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Square(p[i], l[i]);
}
SLUICE_SIMD void Absolutes(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Absolute(p[i], l[i]);
}
SLUICE_SIMD void Hubers(const float* p, const float* l, float rho, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Huber(p[i], l[i], rho);
}
SLUICE_SIMD void Logistics(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Logistic(p[i], l[i]);
}
void Divergences(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Divergence(p[i], l[i]);
}

SLUICE_SIMD void SquaresBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::SquareGradient(p[i], l[i], g);
}
SLUICE_SIMD void AbsolutesBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::AbsoluteGradient(p[i], l[i], g);
}
SLUICE_SIMD void HubersBackward(const float* p, const float* l, float rho, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::HuberGradient(p[i], l[i], rho, g);
}
SLUICE_SIMD void LogisticsBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::LogisticGradient(p[i], l[i], g);
}
SLUICE_SIMD void DivergencesBackward(const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::DivergenceGradient(l[i], g);
}

void Values(const RowLossShape& s, const float* p, const float* l, float* out, int64_t n) {
  switch (s.kind) {
    case RowLossKind::kSquare:
      return Squares(p, l, out, n);
    case RowLossKind::kAbsolute:
      return Absolutes(p, l, out, n);
    case RowLossKind::kHuber:
      return Hubers(p, l, s.rho, out, n);
    case RowLossKind::kLogistic:
      return Logistics(p, l, out, n);
    case RowLossKind::kDivergence:
      return Divergences(p, l, out, n);
  }
}

SLUICE_SIMD double Total(const float* a, int64_t n) {
  return SumOf(n, [a](int64_t i) { return a[i]; });
}

float LossOfRow(const RowLossArgs& args, int64_t row) {
  constexpr int64_t kPiece = 1024;
  const RowLossShape& s = args.shape;
  float values[kPiece];
  double sum = 0;
  for (int64_t begin = 0; begin < s.columns; begin += kPiece) {
    const int64_t at = row * s.columns + begin, n = std::min(kPiece, s.columns - begin);
    Values(s, args.prediction + at, args.label + at, values, n);
    sum += Total(values, n);
  }
  return static_cast<float>(sum / static_cast<double>(s.columns));
}

// Computes rows [first, last) of grad_prediction.
void BackwardRows(const RowLossBackwardArgs& args, int64_t first, int64_t last) {
  const RowLossShape& s = args.shape;
  for (int64_t row = first; row < last; ++row) {
    const float g = args.grad[row] / static_cast<float>(s.columns);
    const float *p = args.prediction + row * s.columns, *l = args.label + row * s.columns;
    float* out = args.grad_prediction + row * s.columns;
    switch (s.kind) {
      case RowLossKind::kSquare:
        SquaresBackward(p, l, g, out, s.columns);
        break;
      case RowLossKind::kAbsolute:
        AbsolutesBackward(p, l, g, out, s.columns);
        break;
      case RowLossKind::kHuber:
        HubersBackward(p, l, s.rho, g, out, s.columns);
        break;
      case RowLossKind::kLogistic:
        LogisticsBackward(p, l, g, out, s.columns);
        break;
      case RowLossKind::kDivergence:
        DivergencesBackward(l, g, out, s.columns);
        break;
    }
  }
}

}  // namespace

void CpuKernels::RowLoss(const RowLossArgs& args) {
  ParallelFor(args.shape.rows, PiecesWorthAThread(args.shape.columns), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) args.losses[row] = LossOfRow(args, row);
  });
}

void CpuKernels::RowLossBackward(const RowLossBackwardArgs& args) {
  ParallelFor(args.shape.rows, PiecesWorthAThread(args.shape.columns),
              [&](int64_t row, int64_t end) { BackwardRows(args, row, end); });
}

}  // namespace sluice::cpu
