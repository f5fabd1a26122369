// Losses that compare a prediction with a label element by element, and their gradients: one loop for each
// kind of RowLossShape (kernels/row_loss.h has the formulas). p is the prediction, l the label, g the
// gradient by the row's loss divided by the number of columns. The methods are called on the stream's
// thread; the rows are divided among the threads of the context's team.
#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

constexpr float kSmallest = 1e-12f;  // added to a probability before its logarithm, as Gluon's KLDivLoss does

SLUICE_SIMD void Squares(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 0.5f * (p[i] - l[i]) * (p[i] - l[i]);
}
SLUICE_SIMD void Absolutes(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Magnitude(p[i] - l[i]);
}
SLUICE_SIMD void Hubers(const float* p, const float* l, float rho, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float d = Magnitude(p[i] - l[i]);
    out[i] = d > rho ? d - 0.5f * rho : 0.5f * d * (d / rho);
  }
}
SLUICE_SIMD void Logistics(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = (p[i] > 0 ? p[i] : 0) - p[i] * l[i] + LogOnePlusExpOfMinus(Magnitude(p[i]));
}
void Divergences(const float* p, const float* l, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    // A class that the label excludes and the prediction finds impossible: 0 times infinity would be NaN.
    const bool impossible = l[i] == 0 && p[i] == -HUGE_VALF;
    out[i] = impossible ? 0 : l[i] * (std::log(l[i] + kSmallest) - p[i]);
  }
}

SLUICE_SIMD void SquaresBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = g * (p[i] - l[i]);
}
SLUICE_SIMD void AbsolutesBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = p[i] > l[i] ? g : (p[i] < l[i] ? -g : 0.0f);
}
SLUICE_SIMD void HubersBackward(const float* p, const float* l, float rho, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float d = (p[i] - l[i]) / rho;
    out[i] = g * (d > 1 ? 1.0f : (d < -1 ? -1.0f : d));
  }
}
SLUICE_SIMD void LogisticsBackward(const float* p, const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = g * (Sigmoid(p[i]) - l[i]);
}
SLUICE_SIMD void DivergencesBackward(const float* l, float g, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = -g * l[i];
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
