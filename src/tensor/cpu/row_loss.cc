// Losses that compare a prediction with a label element by element, and their gradients: one loop for each
// kind of RowLossShape (tensor/kernels.h has the formulas). p is the prediction, l the label, g the gradient
// by the row's loss divided by the number of columns. CpuKernels calls RowLosses and RowLossesBackward for
// ranges of rows, on the threads of the context's team.
#include "tensor/cpu/row_loss.h"

#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/lanes.h"

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

}  // namespace

void RowLosses(const RowLossShape& s, const float* prediction, const float* label, float* losses,
               int64_t first, int64_t last) {
  constexpr int64_t kPiece = 1024;
  float values[kPiece];
  for (int64_t row = first; row < last; ++row) {
    double sum = 0;
    for (int64_t begin = 0; begin < s.columns; begin += kPiece) {
      const int64_t at = row * s.columns + begin, n = std::min(kPiece, s.columns - begin);
      Values(s, prediction + at, label + at, values, n);
      sum += Total(values, n);
    }
    losses[row] = static_cast<float>(sum / static_cast<double>(s.columns));
  }
}

void RowLossesBackward(const RowLossShape& s, const float* prediction, const float* label, const float* grad,
                       float* grad_prediction, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const float g = grad[row] / static_cast<float>(s.columns);
    const float *p = prediction + row * s.columns, *l = label + row * s.columns;
    float* out = grad_prediction + row * s.columns;
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

}  // namespace sluice::cpu
