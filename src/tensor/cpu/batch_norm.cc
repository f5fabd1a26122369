#include "tensor/cpu/batch_norm.h"

#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/lanes.h"

namespace sluice::cpu {
namespace {

// Of up to kBlock channels at a time.
constexpr int64_t kBlock = 64;

// Sums over each of `count` channels from `first` on. Planes of one element are columns of a matrix: there
// the loop over channels is the inner one.
SLUICE_SIMD void Sums(const PlanesShape& s, const float* a, int64_t first, int64_t count, double* sums) {
  std::fill_n(sums, count, 0.0);
  for (int64_t n = 0; n < s.batch; ++n) {
    const float* row = a + (n * s.channels + first) * s.size;
    if (s.size == 1) {
      for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      const float* plane = row + c * s.size;
      sums[c] += SumOf(s.size, [plane](int64_t i) { return plane[i]; });
    }
  }
}

SLUICE_SIMD void SumsOfSquares(const PlanesShape& s, const float* a, const float* mean, int64_t first,
                               int64_t count, double* sums) {
  std::fill_n(sums, count, 0.0);
  for (int64_t n = 0; n < s.batch; ++n) {
    const float* row = a + (n * s.channels + first) * s.size;
    if (s.size == 1) {
      for (int64_t c = 0; c < count; ++c) {
        const float d = row[c] - mean[first + c];
        sums[c] += d * d;
      }
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      const float *plane = row + c * s.size, m = mean[first + c];
      sums[c] += SumOf(s.size, [plane, m](int64_t i) { return (plane[i] - m) * (plane[i] - m); });
    }
  }
}

// Of g (x - mean).
SLUICE_SIMD void SumsOfProducts(const PlanesShape& s, const float* g, const float* x, const float* mean,
                                int64_t first, int64_t count, double* sums) {
  std::fill_n(sums, count, 0.0);
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = (n * s.channels + first) * s.size;
    if (s.size == 1) {
      for (int64_t c = 0; c < count; ++c) sums[c] += g[at + c] * (x[at + c] - mean[first + c]);
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      const float *gp = g + at + c * s.size, *xp = x + at + c * s.size, m = mean[first + c];
      sums[c] += SumOf(s.size, [gp, xp, m](int64_t i) { return gp[i] * (xp[i] - m); });
    }
  }
}

// out = (x - mean) scale + shift, by channel of the block.
SLUICE_SIMD void Normalize(const PlanesShape& s, const float* x, const float* mean, const float* scale,
                           const float* shift, int64_t first, int64_t count, float* out) {
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = (n * s.channels + first) * s.size;
    if (s.size == 1) {
      for (int64_t c = 0; c < count; ++c) out[at + c] = (x[at + c] - mean[first + c]) * scale[c] + shift[c];
      continue;
    }
    for (int64_t c = 0; c < count; ++c) {
      const float *from = x + at + c * s.size, m = mean[first + c], a = scale[c], b = shift[c];
      float* to = out + at + c * s.size;
      for (int64_t i = 0; i < s.size; ++i) to[i] = (from[i] - m) * a + b;
    }
  }
}

// grad_x = g a - (x - mean) b - c, by channel of the block.
SLUICE_SIMD void Combine(const PlanesShape& s, const float* g, const float* x, const float* mean,
                         const float* a, const float* b, const float* c, int64_t first, int64_t count,
                         float* grad_x) {
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = (n * s.channels + first) * s.size;
    if (s.size == 1) {
      for (int64_t j = 0; j < count; ++j)
        grad_x[at + j] = g[at + j] * a[j] - (x[at + j] - mean[first + j]) * b[j] - c[j];
      continue;
    }
    for (int64_t j = 0; j < count; ++j) {
      const float *gp = g + at + j * s.size, *xp = x + at + j * s.size;
      const float m = mean[first + j], aj = a[j], bj = b[j], cj = c[j];
      float* to = grad_x + at + j * s.size;
      for (int64_t i = 0; i < s.size; ++i) to[i] = gp[i] * aj - (xp[i] - m) * bj - cj;
    }
  }
}

// Of the batch, and into the running ones: var's is the unbiased one (Ioffe, Szegedy 2015, algorithm 2).
void Statistics(const BatchNormShape& shape, const float* x, float* running_mean, float* running_variance,
                float* mean, float* inverse, int64_t first, int64_t count) {
  const PlanesShape& s = shape.planes;
  const double values = static_cast<double>(s.batch) * static_cast<double>(s.size);
  double sums[kBlock];
  Sums(s, x, first, count, sums);
  for (int64_t c = 0; c < count; ++c) mean[first + c] = static_cast<float>(sums[c] / values);
  SumsOfSquares(s, x, mean, first, count, sums);
  const double keep = shape.momentum;
  const auto mix = [keep](float* running, double now) {
    *running = static_cast<float>(keep * *running + (1 - keep) * now);
  };
  for (int64_t c = 0; c < count; ++c) {
    inverse[first + c] =
        static_cast<float>(1 / std::sqrt(sums[c] / values + static_cast<double>(shape.epsilon)));
    mix(running_mean + first + c, mean[first + c]);
    if (values > 1) mix(running_variance + first + c, sums[c] / (values - 1));
  }
}

}  // namespace

void BatchNormChannels(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                       float* running_mean, float* running_variance, float* out, float* mean, float* inverse,
                       int64_t first, int64_t last) {
  const PlanesShape& s = shape.planes;
  for (; first < last; first += kBlock) {
    const int64_t count = std::min(kBlock, last - first);
    if (shape.training) {
      Statistics(shape, x, running_mean, running_variance, mean, inverse, first, count);
    } else {
      for (int64_t c = first; c < first + count; ++c) {
        mean[c] = running_mean[c];
        inverse[c] = 1 / std::sqrt(running_variance[c] + shape.epsilon);
      }
    }
    float scale[kBlock], shift[kBlock];
    for (int64_t c = 0; c < count; ++c) {
      scale[c] = inverse[first + c] * (gamma != nullptr ? gamma[first + c] : 1);
      shift[c] = beta != nullptr ? beta[first + c] : 0;
    }
    Normalize(s, x, mean, scale, shift, first, count, out);
  }
}

void BatchNormChannelsBackward(const BatchNormShape& shape, const float* x, const float* gamma,
                               const float* mean, const float* inverse, const float* grad, float* grad_x,
                               float* grad_gamma, float* grad_beta, int64_t first, int64_t last) {
  const PlanesShape& s = shape.planes;
  const double values = static_cast<double>(s.batch) * static_cast<double>(s.size);
  for (; first < last; first += kBlock) {
    const int64_t count = std::min(kBlock, last - first);
    double sums[kBlock], products[kBlock];
    Sums(s, grad, first, count, sums);
    SumsOfProducts(s, grad, x, mean, first, count, products);
    float a[kBlock], b[kBlock] = {}, c[kBlock] = {};
    for (int64_t i = 0; i < count; ++i) {
      const double inv = inverse[first + i];
      const double scale = inv * (gamma != nullptr ? gamma[first + i] : 1);
      a[i] = static_cast<float>(scale);
      if (shape.training) {  // mean and variance depend on x too
        b[i] = static_cast<float>(scale * inv * inv * products[i] / values);
        c[i] = static_cast<float>(scale * sums[i] / values);
      }
      if (grad_gamma != nullptr) grad_gamma[first + i] = static_cast<float>(products[i] * inv);
      if (grad_beta != nullptr) grad_beta[first + i] = static_cast<float>(sums[i]);
    }
    if (grad_x != nullptr) Combine(s, grad, x, mean, a, b, c, first, count, grad_x);
  }
}

}  // namespace sluice::cpu
