#include "tensor/cpu/elementwise.h"

#include <cstring>

#include "base/simd.h"

namespace sluice::cpu {
namespace {

SLUICE_SIMD void ReluBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] > 0 ? grad[i] : 0;
}
SLUICE_SIMD void TanhBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * (1 - y[i] * y[i]);
}
SLUICE_SIMD void SigmoidBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * y[i] * (1 - y[i]);
}

}  // namespace

SLUICE_SIMD void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = alpha * a[i] + beta * b[i];
}
SLUICE_SIMD void Multiply(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}
SLUICE_SIMD void Affine(const float* a, float scale, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = scale * a[i] + shift;
}
SLUICE_SIMD void Relu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : 0;
}

double Sum(const float* a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

SLUICE_SIMD void SumRows(const float* a, float* out, int64_t rows, int64_t columns) {
  std::memset(out, 0, static_cast<size_t>(columns) * sizeof(float));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < columns; ++j) out[j] += a[row * columns + j];
  }
}

void ActivationBackward(ActivationKind kind, const float* y, const float* grad, float* grad_x, int64_t n) {
  switch (kind) {
    case ActivationKind::kRelu:
      return ReluBackward(y, grad, grad_x, n);
    case ActivationKind::kTanh:
      return TanhBackward(y, grad, grad_x, n);
    case ActivationKind::kSigmoid:
      return SigmoidBackward(y, grad, grad_x, n);
  }
}

}  // namespace sluice::cpu
