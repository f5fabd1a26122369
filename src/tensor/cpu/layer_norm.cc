#include "tensor/cpu/layer_norm.h"

#include "base/simd.h"
#include "tensor/cpu/lanes.h"

namespace sluice::cpu {

SLUICE_SIMD void LayerNormRows(const float* x, const float* gamma, const float* beta, float epsilon,
                               float* out, float* mean, float* inverse, int64_t columns, int64_t first,
                               int64_t last) {
  const auto count = static_cast<double>(columns);
  for (int64_t row = first; row < last; ++row) {
    const float* from = x + row * columns;
    float* to = out + row * columns;
    const auto m = static_cast<float>(SumOf(columns, [from](int64_t i) { return from[i]; }) / count);
    const double squares = SumOf(columns, [from, m](int64_t i) { return (from[i] - m) * (from[i] - m); });
    const auto inv = static_cast<float>(1 / std::sqrt(squares / count + static_cast<double>(epsilon)));
    mean[row] = m;
    inverse[row] = inv;
    for (int64_t i = 0; i < columns; ++i) to[i] = (from[i] - m) * inv;
    if (gamma != nullptr) {
      for (int64_t i = 0; i < columns; ++i) to[i] *= gamma[i];
    }
    if (beta != nullptr) {
      for (int64_t i = 0; i < columns; ++i) to[i] += beta[i];
    }
  }
}

SLUICE_SIMD void LayerNormRowsBackward(const float* x, const float* gamma, const float* mean,
                                       const float* inverse, const float* grad, float* grad_x,
                                       int64_t columns, int64_t first, int64_t last) {
  const auto count = static_cast<double>(columns);
  for (int64_t row = first; row < last; ++row) {
    const float *xs = x + row * columns, *g = grad + row * columns, m = mean[row], inv = inverse[row];
    float* to = grad_x + row * columns;
    for (int64_t i = 0; i < columns; ++i) to[i] = gamma != nullptr ? g[i] * gamma[i] : g[i];
    const double sum = SumOf(columns, [to](int64_t i) { return to[i]; });
    const double product = SumOf(columns, [to, xs, m](int64_t i) { return to[i] * (xs[i] - m); });
    const auto shift = static_cast<float>(sum / count),
               slope =
                   static_cast<float>(product / count * static_cast<double>(inv) * static_cast<double>(inv));
    for (int64_t i = 0; i < columns; ++i) to[i] = (to[i] - shift - (xs[i] - m) * slope) * inv;
  }
}

SLUICE_SIMD void LayerNormColumnsBackward(const float* x, const float* mean, const float* inverse,
                                          const float* grad, float* grad_gamma, float* grad_beta,
                                          int64_t rows, int64_t columns, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 64;
  for (; first < last; first += kBlock) {
    const int64_t count = std::min(kBlock, last - first);
    double products[kBlock] = {}, sums[kBlock] = {};
    for (int64_t row = 0; row < rows; ++row) {
      const float *xs = x + row * columns + first, *g = grad + row * columns + first;
      for (int64_t i = 0; i < count; ++i) {
        products[i] += g[i] * (xs[i] - mean[row]) * inverse[row];
        sums[i] += g[i];
      }
    }
    for (int64_t i = 0; i < count && grad_gamma != nullptr; ++i)
      grad_gamma[first + i] = static_cast<float>(products[i]);
    for (int64_t i = 0; i < count && grad_beta != nullptr; ++i)
      grad_beta[first + i] = static_cast<float>(sums[i]);
  }
}

}  // namespace sluice::cpu
