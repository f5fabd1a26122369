// Batch normalisation of [rows, channels], forward and backward, as passes over the rows with loops over the
// channels inside, which the compiler vectorises. Invariant: sums are taken over pieces of the rows that
// depend on the shape only, and the pieces' sums are added in order, so the number of threads changes no bit.
// autograd/ops/norm.cc calls the methods, in work on the stream's thread; the passes run on the context's
// team.
#include <algorithm>
#include <cmath>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

// The normalisation as y = (x - mean) scale + shift, for each channel.
struct ChannelFactors {
  int64_t channels;
  // The threshold of relu: a result at most this becomes 0. With relu it is 0, and a result of NaN stays NaN.
  // Without relu it is NaN, and no value compares as at most NaN.
  float floor;
  const float *mean, *scale, *shift;
  // For backward: grad_x = g scale - (x - mean) slope - offset, where g is the gradient, or 0 below `floor`.
  float *slope, *offset;
};

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

SLUICE_SIMD void Normalize(const float* __restrict x, const ChannelFactors& a, int64_t rows,
                           float* __restrict out) {
  const int64_t channels = a.channels;
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  for (int64_t row = 0; row < rows; ++row, x += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) out[c] = (x[c] - mean[c]) * scale[c] + shift[c];
  }
}
SLUICE_SIMD void NormalizeRelu(const float* __restrict x, const ChannelFactors& a, int64_t rows,
                               float* __restrict out) {
  const int64_t channels = a.channels;
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  for (int64_t row = 0; row < rows; ++row, x += channels, out += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float y = (x[c] - mean[c]) * scale[c] + shift[c];
      out[c] = y <= 0 ? 0 : y;
    }
  }
}

SLUICE_SIMD void NormalizeAdd(const float* __restrict x, const ChannelFactors& a,
                              const float* __restrict addend, int64_t rows, float* __restrict out) {
  const int64_t channels = a.channels;
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  const float floor = a.floor;
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
SLUICE_INLINE void AddGradients(const float* __restrict grad, const float* __restrict x,
                                const ChannelFactors& a, double* __restrict sums,
                                double* __restrict products) {
  const int64_t channels = a.channels;
  const float floor = a.floor;
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
SLUICE_SIMD void GradientSums(const float* grad, const float* x, const ChannelFactors& a, int64_t rows,
                              double* sums, double* products) {
  const int64_t channels = a.channels;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    AddGradients<kRows>(grad + row * channels, x + row * channels, a, sums, products);
  for (; row < rows; ++row) AddGradients<1>(grad + row * channels, x + row * channels, a, sums, products);
}

// Computes grad_x as ChannelFactors says.
SLUICE_SIMD void InputGradients(const float* __restrict grad, const float* __restrict x,
                                const ChannelFactors& a, int64_t rows, float* __restrict grad_x) {
  const int64_t channels = a.channels;
  const float* __restrict mean = a.mean, * __restrict scale = a.scale, * __restrict shift = a.shift;
  const float* __restrict slope = a.slope, * __restrict offset = a.offset;
  const float floor = a.floor;
  for (int64_t row = 0; row < rows; ++row, x += channels, grad += channels, grad_x += channels) {
    for (int64_t c = 0; c < channels; ++c) {
      const float d = x[c] - mean[c], g = d * scale[c] + shift[c] <= floor ? 0 : grad[c];
      grad_x[c] = g * scale[c] - d * slope[c] - offset[c];
    }
  }
}

// Calls sum(begin, end, first, second) for pieces [begin, end) of the rows, in parallel; it
// adds to two arrays of one sum for each channel. Leaves the totals at the beginning of
// `sums`: `first` of all channels, then `second`.
template <typename Sum>
void SumOfPieces(int64_t rows, int64_t channels, std::vector<double>* sums, Sum&& sum) {
  const int64_t pieces = std::clamp<int64_t>(rows / PiecesWorthAThread(channels), 1, 64);
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
// (Ioffe, Szegedy 2015, algorithm 2). The first row, as `origin` of the channels, was subtracted from all
// values so that their sums of squares do not cancel.
void Statistics(const BatchNormArgs& args, const double* sums) {
  const BatchNormShape& s = args.shape;
  const float* origin = args.x;
  const auto values = static_cast<double>(s.rows);
  const double keep = s.momentum;
  const auto mix = [keep](float* running, double now) {
    *running = static_cast<float>(keep * *running + (1 - keep) * now);
  };
  for (int64_t c = 0; c < s.channels; ++c) {
    const double offset = sums[c] / values;
    const double squares = std::max(sums[s.channels + c] - sums[c] * offset, 0.0);
    args.mean[c] = static_cast<float>(origin[c] + offset);
    args.inverse[c] = static_cast<float>(1 / std::sqrt(squares / values + static_cast<double>(s.epsilon)));
    mix(args.running_mean + c, origin[c] + offset);
    if (s.rows > 1) mix(args.running_variance + c, squares / (values - 1));
  }
}

// Returns the factors of a BatchNorm, or a BatchNormBackward, with its mean and inverse. They lie in
// `memory`; slope and offset are not set.
template <typename Args>
ChannelFactors FactorsOf(const Args& args, std::vector<float>* memory) {
  const int64_t channels = args.shape.channels;
  memory->resize(static_cast<size_t>(4 * channels));
  float *scale = memory->data(), *shift = scale + channels;
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = args.inverse[c] * (args.gamma != nullptr ? args.gamma[c] : 1);
    shift[c] = args.beta != nullptr ? args.beta[c] : 0;
  }
  const float floor = args.shape.relu ? 0 : NAN;
  return {channels, floor, args.mean, scale, shift, shift + channels, shift + 2 * channels};
}

// Computes grad_gamma, grad_beta and the factors of grad_x from `sums`, the totals of GradientSums.
void FinishGradients(const BatchNormBackwardArgs& args, const double* sums, const ChannelFactors& factors) {
  const int64_t channels = args.shape.channels;
  const auto values = static_cast<double>(args.shape.rows);
  for (int64_t c = 0; c < channels; ++c) {
    const double sum = sums[c], product = sums[channels + c];
    const double inv = args.inverse[c], scale = factors.scale[c];
    factors.slope[c] = factors.offset[c] = 0;
    if (args.shape.training) {  // the mean and the variance depend on x too
      factors.slope[c] = static_cast<float>(scale * inv * inv * product / values);
      factors.offset[c] = static_cast<float>(scale * sum / values);
    }
    if (args.grad_gamma != nullptr) args.grad_gamma[c] = static_cast<float>(product * inv);
    if (args.grad_beta != nullptr) args.grad_beta[c] = static_cast<float>(sum);
  }
}

}  // namespace

void CpuKernels::BatchNorm(const BatchNormArgs& args) {
  const BatchNormShape& s = args.shape;
  if (s.rows == 0) return;
  const int64_t channels = s.channels;
  if (s.training) {
    SumOfPieces(s.rows, channels, &sums_, [&](int64_t begin, int64_t end, double* sums, double* squares) {
      Moments(args.x + begin * channels, args.x, end - begin, channels, sums, squares);
    });
    Statistics(args, sums_.data());
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      args.mean[c] = args.running_mean[c];
      args.inverse[c] = 1 / std::sqrt(args.running_variance[c] + s.epsilon);
    }
  }
  const ChannelFactors factors = FactorsOf(args, &factors_);
  ParallelFor(s.rows, PiecesWorthAThread(channels), [&](int64_t begin, int64_t end) {
    const float* x = args.x + begin * channels;
    float* out = args.out + begin * channels;
    if (args.addend != nullptr)
      return NormalizeAdd(x, factors, args.addend + begin * channels, end - begin, out);
    (s.relu ? NormalizeRelu : Normalize)(x, factors, end - begin, out);
  });
}

void CpuKernels::BatchNormBackward(const BatchNormBackwardArgs& args) {
  const BatchNormShape& s = args.shape;
  const int64_t channels = s.channels;
  if (s.rows == 0) {
    if (args.grad_gamma != nullptr) std::fill_n(args.grad_gamma, channels, 0.0f);
    if (args.grad_beta != nullptr) std::fill_n(args.grad_beta, channels, 0.0f);
    return;
  }
  const ChannelFactors factors = FactorsOf(args, &factors_);
  SumOfPieces(s.rows, channels, &sums_, [&](int64_t begin, int64_t end, double* sums, double* products) {
    GradientSums(args.grad + begin * channels, args.x + begin * channels, factors, end - begin, sums,
                 products);
  });
  FinishGradients(args, sums_.data(), factors);
  if (args.grad_x == nullptr) return;
  ParallelFor(s.rows, PiecesWorthAThread(channels), [&](int64_t begin, int64_t end) {
    InputGradients(args.grad + begin * channels, args.x + begin * channels, factors, end - begin,
                   args.grad_x + begin * channels);
  });
}

}  // namespace sluice::cpu
