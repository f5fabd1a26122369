// Batch normalisation of [rows, channels], forward and backward, as passes over the rows with loops over the
// channels inside, which the compiler vectorises. Invariant: sums are taken over pieces of the rows that
// depend on the shape only, and the pieces' sums are added in order, so the number of threads changes no
// bit. CpuKernels calls it on the stream's thread; the passes run on the context's team.
#include "tensor/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "base/simd.h"
#include "tensor/cpu/exp.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

using Affine = BatchNorm::Affine;

// The threshold of relu: a result at most this becomes 0. With relu it is 0, and a result of NaN stays NaN.
// Without relu it is NaN, and no value compares as at most NaN.
float FloorOf(bool relu) {
  return relu ? 0 : NAN;
}

// The sums of the channels are in memory. They are loaded and stored once for this many rows.
constexpr int64_t kRows = 4;

// sums[c] += x - origin[c], squares[c] += (x - origin[c])^2, over kCount rows (kRows or 1).
template <int64_t kCount>
SLUICE_INLINE void AddMoments(const float* __restrict x, const float* __restrict origin, int64_t channels,
                              double* __restrict sums, double* __restrict squares) {
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, square = 0;
    for (int64_t row = 0; row < kCount; ++row) {
      const double d = x[row * channels + c] - origin[c];
      sum += d;
      square += d * d;
    }
    sums[c] += sum;
    squares[c] += square;
  }
}
SLUICE_SIMD void Moments(const float* x, const float* origin, int64_t rows, int64_t channels, double* sums,
                         double* squares) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    AddMoments<kRows>(x + row * channels, origin, channels, sums, squares);
  for (; row < rows; ++row) AddMoments<1>(x + row * channels, origin, channels, sums, squares);
}

SLUICE_SIMD void Normalize(const float* __restrict x, const Affine& a, int64_t rows, int64_t channels,
                           float* __restrict out) {
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  for (int64_t row = 0; row < rows; ++row, x += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) out[c] = (x[c] - mean[c]) * scale[c] + shift[c];
  }
}
SLUICE_SIMD void NormalizeRelu(const float* __restrict x, const Affine& a, int64_t rows, int64_t channels,
                               float* __restrict out) {
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  for (int64_t row = 0; row < rows; ++row, x += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float y = (x[c] - mean[c]) * scale[c] + shift[c];
      out[c] = y <= 0 ? 0 : y;
    }
  }
}

SLUICE_SIMD void NormalizeAdd(const float* __restrict x, const Affine& a, const float* __restrict addend,
                              bool relu, int64_t rows, int64_t channels, float* __restrict out) {
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  const float floor = FloorOf(relu);
  for (int64_t row = 0; row < rows; ++row, x += channels, addend += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float y = (x[c] - mean[c]) * scale[c] + shift[c] + addend[c];
      out[c] = y <= floor ? 0 : y;
    }
  }
}

// sums[c] += g, products[c] += g (x - mean[c]), over kCount rows. g is the
// gradient, or 0 where relu's input was at most 0.
template <int64_t kCount>
SLUICE_INLINE void AddGradients(const float* __restrict grad, const float* __restrict x, const Affine& a,
                                float floor, int64_t channels, double* __restrict sums,
                                double* __restrict products) {
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0, product = 0;
    for (int64_t row = 0; row < kCount; ++row) {
      const float d = x[row * channels + c] - mean[c];
      const float g = d * scale[c] + shift[c] <= floor ? 0 : grad[row * channels + c];
      sum += g;
      product += g * d;
    }
    sums[c] += sum;
    products[c] += product;
  }
}
SLUICE_SIMD void GradientSums(const float* grad, const float* x, const Affine& a, bool relu, int64_t rows,
                              int64_t channels, double* sums, double* products) {
  const float floor = FloorOf(relu);
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    AddGradients<kRows>(grad + row * channels, x + row * channels, a, floor, channels, sums, products);
  for (; row < rows; ++row)
    AddGradients<1>(grad + row * channels, x + row * channels, a, floor, channels, sums, products);
}

// grad_x = g scale - (x - mean) b - k, with g as in AddGradients.
SLUICE_SIMD void Combine(const float* __restrict grad, const float* __restrict x, const Affine& a, bool relu,
                         const float* __restrict b, const float* __restrict k, int64_t rows, int64_t channels,
                         float* __restrict grad_x) {
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  const float floor = FloorOf(relu);
  for (int64_t row = 0; row < rows; ++row, x += channels, grad += channels, grad_x += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float d = x[c] - mean[c], g = d * scale[c] + shift[c] <= floor ? 0 : grad[c];
      grad_x[c] = g * scale[c] - d * b[c] - k[c];
    }
  }
}

constexpr int64_t kGrain = int64_t{32} << 10;  // the number of elements that are worth a thread

int64_t RowsWorthAThread(int64_t channels) {
  return kGrain / std::max<int64_t>(channels, 1) + 1;
}

// Calls sum(begin, end, first, second) for pieces [begin, end) of the rows, in parallel; it
// adds to two arrays of one sum for each channel. Leaves the totals at the beginning of
// `sums`: `first` of all channels, then `second`.
template <typename Sum>
void SumOfPieces(int64_t rows, int64_t channels, std::vector<double>* sums, Sum&& sum) {
  const int64_t pieces = std::clamp<int64_t>(rows / RowsWorthAThread(channels), 1, 64);
  sums->assign(static_cast<size_t>(pieces * 2 * channels), 0);
  double* all = sums->data();
  ParallelFor(pieces, 1, [&](int64_t piece, int64_t end) {
    for (; piece < end; ++piece) {
      double* own = all + piece * 2 * channels;
      sum(rows * piece / pieces, rows * (piece + 1) / pieces, own, own + channels);
    }
  });
  for (int64_t piece = 1; piece < pieces; ++piece) {
    for (int64_t i = 0; i < 2 * channels; ++i) all[i] += all[piece * 2 * channels + i];
  }
}

// Computes the batch's statistics from `sums`, and updates the running ones, with the unbiased variance
// (Ioffe, Szegedy 2015, algorithm 2). `origin` is one value of each channel, which was subtracted from
// all values so that their sums of squares do not cancel.
void Statistics(const BatchNormShape& s, const double* sums, const float* origin, float* running_mean,
                float* running_variance, float* mean, float* inverse) {
  const auto values = static_cast<double>(s.rows);
  const double keep = s.momentum;
  const auto mix = [keep](float* running, double now) {
    *running = static_cast<float>(keep * *running + (1 - keep) * now);
  };
  for (int64_t c = 0; c < s.channels; ++c) {
    const double offset = sums[c] / values;
    const double squares = std::max(sums[s.channels + c] - sums[c] * offset, 0.0);
    mean[c] = static_cast<float>(origin[c] + offset);
    inverse[c] = static_cast<float>(1 / std::sqrt(squares / values + static_cast<double>(s.epsilon)));
    mix(running_mean + c, origin[c] + offset);
    if (s.rows > 1) mix(running_variance + c, squares / (values - 1));
  }
}

}  // namespace

void BatchNorm::Forward(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                        const float* addend, float* running_mean, float* running_variance, float* out,
                        float* mean, float* inverse) {
  if (s.rows == 0) return;
  const int64_t channels = s.channels;
  if (s.training) {
    SumOfPieces(s.rows, channels, &sums_, [&](int64_t begin, int64_t end, double* sums, double* squares) {
      Moments(x + begin * channels, x, end - begin, channels, sums, squares);
    });
    Statistics(s, sums_.data(), x, running_mean, running_variance, mean, inverse);
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      mean[c] = running_mean[c];
      inverse[c] = 1 / std::sqrt(running_variance[c] + s.epsilon);
    }
  }
  const Affine affine = AffineOf(channels, gamma, beta, mean, inverse);
  ParallelFor(s.rows, RowsWorthAThread(channels), [&](int64_t begin, int64_t end) {
    if (addend != nullptr) {
      return NormalizeAdd(x + begin * channels, affine, addend + begin * channels, s.relu, end - begin,
                          channels, out + begin * channels);
    }
    (s.relu ? NormalizeRelu : Normalize)(x + begin * channels, affine, end - begin, channels,
                                         out + begin * channels);
  });
}

void BatchNorm::Backward(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                         const float* mean, const float* inverse, const float* grad, float* grad_x,
                         float* grad_gamma, float* grad_beta) {
  const int64_t channels = s.channels;
  if (s.rows == 0) {
    if (grad_gamma != nullptr) std::fill_n(grad_gamma, channels, 0.0f);
    if (grad_beta != nullptr) std::fill_n(grad_beta, channels, 0.0f);
    return;
  }
  const Affine affine = AffineOf(channels, gamma, beta, mean, inverse);
  SumOfPieces(s.rows, channels, &sums_, [&](int64_t begin, int64_t end, double* sums, double* products) {
    GradientSums(grad + begin * channels, x + begin * channels, affine, s.relu, end - begin, channels, sums,
                 products);
  });
  const auto values = static_cast<double>(s.rows);
  float *b = factors_.data() + 2 * channels, *k = b + channels;
  for (int64_t c = 0; c < channels; ++c) {
    const double sum = sums_[static_cast<size_t>(c)], product = sums_[static_cast<size_t>(channels + c)];
    const double inv = inverse[c], scale = affine.scale[c];
    b[c] = k[c] = 0;
    if (s.training) {  // the mean and the variance depend on x too
      b[c] = static_cast<float>(scale * inv * inv * product / values);
      k[c] = static_cast<float>(scale * sum / values);
    }
    if (grad_gamma != nullptr) grad_gamma[c] = static_cast<float>(product * inv);
    if (grad_beta != nullptr) grad_beta[c] = static_cast<float>(sum);
  }
  if (grad_x == nullptr) return;
  ParallelFor(s.rows, RowsWorthAThread(channels), [&](int64_t begin, int64_t end) {
    Combine(grad + begin * channels, x + begin * channels, affine, s.relu, b, k, end - begin, channels,
            grad_x + begin * channels);
  });
}

BatchNorm::Affine BatchNorm::AffineOf(int64_t channels, const float* gamma, const float* beta,
                                      const float* mean, const float* inverse) {
  factors_.resize(static_cast<size_t>(4 * channels));
  float *scale = factors_.data(), *shift = scale + channels;
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = inverse[c] * (gamma != nullptr ? gamma[c] : 1);
    shift[c] = beta != nullptr ? beta[c] : 0;
  }
  return {mean, scale, shift};
}

}  // namespace sluice::cpu
