#include "tensor/cpu/elementwise.h"

#include <algorithm>

#include "base/simd.h"

namespace sluice::cpu {

SLUICE_SIMD void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = alpha * a[i] + beta * b[i];
}
SLUICE_SIMD void Multiply(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}
namespace {

SLUICE_SIMD void DivideArrays(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] / b[i];
}
SLUICE_SIMD void DivideBy(const float* a, float divisor, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] / divisor;
}
SLUICE_SIMD void DivideScalar(float dividend, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = dividend / b[i];
}

}  // namespace

void Divide(const float* a, const float* b, float scalar, float* out, int64_t n) {
  if (a == nullptr) return DivideScalar(scalar, b, out, n);
  if (b == nullptr) return DivideBy(a, scalar, out, n);
  DivideArrays(a, b, out, n);
}

SLUICE_SIMD void Affine(const float* a, float scale, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = scale * a[i] + shift;
}
double Sum(const float* a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

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

}  // namespace sluice::cpu
