// Softmax of rows, the cross entropy and the log-softmax made of it, and their gradients. The highest value
// of a row is subtracted before e^x is taken, so that nothing overflows; sums are as in lanes.h, so the
// bits do not depend on the instruction set. CpuKernels calls the functions for ranges of rows, on the
// threads of the context's team, after it has checked the labels.
#include "tensor/cpu/softmax.h"

#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/lanes.h"

namespace sluice::cpu {
namespace {

// The most rows that are computed together, so that short rows too fill the vectors of e^x.
constexpr int64_t kMostRows = 64;

int64_t RowsTogether(int64_t columns) {
  return std::clamp<int64_t>(2048 / std::max<int64_t>(columns, 1), 1, kMostRows);
}

// powers[row, j] = exp(x[row, j] - highest[row]), where highest[row] is the largest value of
// the row; sums[row] is the sum of the row's powers.
SLUICE_SIMD void Powers(const float* x, int64_t rows, int64_t columns, float* powers, float* highest,
                        double* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    const float high = highest[row] = MaxOf(x + row * columns, columns);
    for (int64_t j = 0; j < columns; ++j) powers[row * columns + j] = x[row * columns + j] - high;
  }
  for (int64_t i = 0; i < rows * columns; ++i) powers[i] = Exp(powers[i]);
  for (int64_t row = 0; row < rows; ++row) {
    const float* p = powers + row * columns;
    sums[row] = SumOf(columns, [p](int64_t j) { return p[j]; });
  }
}

SLUICE_SIMD double SumOfRow(const float* x, int64_t columns) {
  return SumOf(columns, [x](int64_t j) { return x[j]; });
}

SLUICE_SIMD void Subtract(const float* x, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - shift;
}

SLUICE_SIMD void SubtractPowers(const float* grad, const float* y, float factor, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = grad[i] - factor * Exp(y[i]);
}

}  // namespace

void SoftmaxCrossEntropyRows(const float* scores, const float* labels, float smoothing, float* probabilities,
                             float* losses, int64_t classes, int64_t first, int64_t last) {
  float highest[kMostRows];
  double sums[kMostRows];
  const int64_t together = RowsTogether(classes);
  for (; first < last; first += together) {
    const int64_t rows = std::min(together, last - first);
    Powers(scores + first * classes, rows, classes, probabilities + first * classes, highest, sums);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      const float* s = scores + row * classes;
      float* p = probabilities + row * classes;
      Affine(p, static_cast<float>(1 / sums[i]), 0, p, classes);
      const double high = highest[i], own = s[static_cast<int64_t>(labels[row])] - high;
      double expected = own;  // the mean of the scores (less `high`) under the smoothed label
      if (smoothing != 0) {
        const double mean = SumOfRow(s, classes) / static_cast<double>(classes) - high;
        expected = (1 - static_cast<double>(smoothing)) * own + static_cast<double>(smoothing) * mean;
      }
      losses[row] = static_cast<float>(std::log(sums[i]) - expected);
    }
  }
}

void SoftmaxCrossEntropyRowsBackward(const float* probabilities, const float* labels, float smoothing,
                                     const float* grad, float* grad_scores, int64_t classes, int64_t first,
                                     int64_t last) {
  const float others = smoothing / static_cast<float>(classes);
  for (int64_t row = first; row < last; ++row) {
    float* to = grad_scores + row * classes;
    Affine(probabilities + row * classes, grad[row], -others * grad[row], to, classes);
    to[static_cast<int64_t>(labels[row])] -= (1 - smoothing) * grad[row];
  }
}

void LogSoftmaxRows(const float* x, float* out, int64_t columns, int64_t first, int64_t last) {
  float highest[kMostRows];
  double sums[kMostRows];
  const int64_t together = RowsTogether(columns);
  for (; first < last; first += together) {
    const int64_t rows = std::min(together, last - first);
    Powers(x + first * columns, rows, columns, out + first * columns, highest, sums);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = (first + i) * columns;
      // The two are subtracted one after the other: their sum would lose digits
      // of the logarithm beside a large score.
      Subtract(x + at, highest[i], out + at, columns);
      Subtract(out + at, static_cast<float>(std::log(sums[i])), out + at, columns);
    }
  }
}

void LogSoftmaxRowsBackward(const float* y, const float* grad, float* grad_x, int64_t columns, int64_t first,
                            int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t at = row * columns;
    SubtractPowers(grad + at, y + at, static_cast<float>(SumOfRow(grad + at, columns)), grad_x + at, columns);
  }
}

}  // namespace sluice::cpu
