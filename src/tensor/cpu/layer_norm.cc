// Layer normalisation of rows, forward and backward. Sums are as in lanes.h, so the bits do not depend on the
// instruction set. The methods are called on the stream's thread; rows, and for the gradients of the factors
// columns, are divided among the threads of the context's team, so their number changes no bit.
#include <cmath>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

// Computes rows [first, last) of the results.
SLUICE_SIMD void NormalizeRows(const LayerNormArgs& args, int64_t first, int64_t last) {
  const int64_t columns = args.columns;
  const float *gamma = args.gamma, *beta = args.beta;
  const float epsilon = args.epsilon;
  const auto count = static_cast<double>(columns);
  for (int64_t row = first; row < last; ++row) {
    const float* from = args.x + row * columns;
    float* to = args.out + row * columns;
    const auto m = static_cast<float>(SumOf(columns, [from](int64_t i) { return from[i]; }) / count);
    const double squares = SumOf(columns, [from, m](int64_t i) { return (from[i] - m) * (from[i] - m); });
    const auto inv = static_cast<float>(1 / std::sqrt(squares / count + static_cast<double>(epsilon)));
    args.mean[row] = m;
    args.inverse[row] = inv;
    for (int64_t i = 0; i < columns; ++i) to[i] = (from[i] - m) * inv;
    if (gamma != nullptr) {
      for (int64_t i = 0; i < columns; ++i) to[i] *= gamma[i];
    }
    if (beta != nullptr) {
      for (int64_t i = 0; i < columns; ++i) to[i] += beta[i];
    }
  }
}

// Computes rows [first, last) of grad_x.
SLUICE_SIMD void BackwardRows(const LayerNormBackwardArgs& args, int64_t first, int64_t last) {
  const int64_t columns = args.columns;
  const float* gamma = args.gamma;
  const auto count = static_cast<double>(columns);
  for (int64_t row = first; row < last; ++row) {
    const float *xs = args.x + row * columns, *g = args.grad + row * columns, m = args.mean[row],
                inv = args.inverse[row];
    float* to = args.grad_x + row * columns;
    for (int64_t i = 0; i < columns; ++i) to[i] = gamma != nullptr ? g[i] * gamma[i] : g[i];
    const double sum = SumOf(columns, [to](int64_t i) { return to[i]; });
    const double product = SumOf(columns, [to, xs, m](int64_t i) { return to[i] * (xs[i] - m); });
    const auto shift = static_cast<float>(sum / count),
               slope =
                   static_cast<float>(product / count * static_cast<double>(inv) * static_cast<double>(inv));
    for (int64_t i = 0; i < columns; ++i) to[i] = (to[i] - shift - (xs[i] - m) * slope) * inv;
  }
}

// Computes columns [first, last) of grad_gamma and grad_beta; either may be null.
SLUICE_SIMD void BackwardColumns(const LayerNormBackwardArgs& args, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 64;
  const int64_t rows = args.rows, columns = args.columns;
  const float *x = args.x, *grad = args.grad, *mean = args.mean, *inverse = args.inverse;
  float *grad_gamma = args.grad_gamma, *grad_beta = args.grad_beta;
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

}  // namespace

void CpuKernels::LayerNorm(const LayerNormArgs& args) {
  ParallelFor(args.rows, PiecesWorthAThread(args.columns),
              [&](int64_t row, int64_t end) { NormalizeRows(args, row, end); });
}

void CpuKernels::LayerNormBackward(const LayerNormBackwardArgs& args) {
  if (args.grad_gamma != nullptr || args.grad_beta != nullptr) {
    ParallelFor(args.columns, PiecesWorthAThread(args.rows),
                [&](int64_t column, int64_t end) { BackwardColumns(args, column, end); });
  }
  if (args.grad_x == nullptr) return;
  ParallelFor(args.rows, PiecesWorthAThread(args.columns),
              [&](int64_t row, int64_t end) { BackwardRows(args, row, end); });
}

}  // namespace sluice::cpu
