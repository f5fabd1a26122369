#include "tensor/cpu/elementwise.h"

#include <cstring>

#include "base/simd.h"

namespace sluice::cpu {

SLUICE_SIMD void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = alpha * a[i] + beta * b[i];
}
SLUICE_SIMD void Multiply(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}
SLUICE_SIMD void Affine(const float* a, float scale, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = scale * a[i] + shift;
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

}  // namespace sluice::cpu
