// Softmax of rows, the cross entropy and the log-softmax made of it, and their gradients. The highest value
// of a row is subtracted before e^x is taken, so that nothing overflows; sums are as in lanes.h, so the
// bits do not depend on the instruction set. autograd/ops/loss.cc calls the methods, in work on the stream's
// thread; once the labels are checked, the rows are divided among the threads of the context's team.
#include <algorithm>
#include <cmath>

#include "base/simd.h"
#include "base/strings.h"
#include "tensor/bad_input.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/parallel.h"
#include "tensor/formulas/exp.h"

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
  for (int64_t i = 0; i < rows * columns; ++i) powers[i] = formulas::Exp(powers[i]);
  for (int64_t row = 0; row < rows; ++row) {
    const float* p = powers + row * columns;
    sums[row] = SumOf(columns, [p](int64_t j) { return p[j]; });
  }
}

// Returns the sum of x[j] - shift. The sum of large scores would lose the digits of their differences. A
// power of two keeps 4096 differences of any scores, which SumOf adds up in float, in range.
SLUICE_SIMD double SumOfDifferences(const float* x, float shift, int64_t columns) {
  constexpr float kShare = 0x1p-14f;
  return SumOf(columns, [x, shift](int64_t j) { return x[j] * kShare - shift * kShare; }) / double{kShare};
}

SLUICE_SIMD void Subtract(const float* x, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - shift;
}

SLUICE_SIMD void SubtractPowers(const float* grad, const float* y, float factor, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = grad[i] - factor * formulas::Exp(y[i]);
}

// Throws for an invalid label. It is called before the work is divided: the threads may not throw.
void RequireLabels(const float* labels, float ignored, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row) {
    const float label = labels[row];
    if (label == ignored) continue;
    if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) continue;
    throw BadLabel(StrCat(label), row, classes);
  }
}

// The functions below compute rows [first, last).
void CrossEntropyRows(const SoftmaxCrossEntropyArgs& args, int64_t first, int64_t last) {
  const int64_t classes = args.classes;
  const float smoothing = args.smoothing;
  float highest[kMostRows];
  double sums[kMostRows];
  const int64_t together = RowsTogether(classes);
  for (; first < last; first += together) {
    const int64_t rows = std::min(together, last - first);
    Powers(args.scores + first * classes, rows, classes, args.probabilities + first * classes, highest, sums);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first + i;
      const float* s = args.scores + row * classes;
      float* p = args.probabilities + row * classes;
      Affine(p, static_cast<float>(1 / sums[i]), 0, p, classes);
      if (args.labels[row] == args.ignored) {
        args.losses[row] = 0;
        continue;
      }
      const double high = highest[i], own = s[static_cast<int64_t>(args.labels[row])] - high;
      double expected = own;  // the mean of the scores (less `high`) under the smoothed label
      if (smoothing != 0) {
        const double mean = SumOfDifferences(s, highest[i], classes) / static_cast<double>(classes);
        expected = smoothing == 1 ? mean : (1 - double{smoothing}) * own + double{smoothing} * mean;
      }
      args.losses[row] = static_cast<float>(std::log(sums[i]) - expected);
    }
  }
}

void CrossEntropyRowsBackward(const SoftmaxCrossEntropyBackwardArgs& args, int64_t first, int64_t last) {
  const int64_t classes = args.classes;
  const float others = args.smoothing / static_cast<float>(classes);
  for (int64_t row = first; row < last; ++row) {
    const float grad = args.grad[row];
    float* to = args.grad_scores + row * classes;
    if (args.labels[row] == args.ignored) {
      std::fill_n(to, classes, 0.0f);
      continue;
    }
    Affine(args.probabilities + row * classes, grad, -others * grad, to, classes);
    to[static_cast<int64_t>(args.labels[row])] -= (1 - args.smoothing) * grad;
  }
}

void LogSoftmaxRows(const LogSoftmaxArgs& args, int64_t first, int64_t last) {
  const int64_t columns = args.columns;
  float* out = args.out;
  float highest[kMostRows];
  double sums[kMostRows];
  const int64_t together = RowsTogether(columns);
  for (; first < last; first += together) {
    const int64_t rows = std::min(together, last - first);
    Powers(args.x + first * columns, rows, columns, out + first * columns, highest, sums);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = (first + i) * columns;
      // The two are subtracted one after the other: their sum would lose digits
      // of the logarithm beside a large score.
      Subtract(args.x + at, highest[i], out + at, columns);
      Subtract(out + at, static_cast<float>(std::log(sums[i])), out + at, columns);
    }
  }
}

void LogSoftmaxRowsBackward(const LogSoftmaxBackwardArgs& args, int64_t first, int64_t last) {
  const int64_t columns = args.columns;
  for (int64_t row = first; row < last; ++row) {
    const float* grad = args.grad + row * columns;
    SubtractPowers(grad, args.y + row * columns, static_cast<float>(SumOfDifferences(grad, 0, columns)),
                   args.grad_x + row * columns, columns);
  }
}

}  // namespace

void CpuKernels::SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& args) {
  RequireLabels(args.labels, args.ignored, args.rows, args.classes);
  ParallelFor(args.rows, PiecesWorthAThread(args.classes),
              [&](int64_t row, int64_t end) { CrossEntropyRows(args, row, end); });
}

void CpuKernels::SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& args) {
  RequireLabels(args.labels, args.ignored, args.rows, args.classes);
  ParallelFor(args.rows, PiecesWorthAThread(args.classes),
              [&](int64_t row, int64_t end) { CrossEntropyRowsBackward(args, row, end); });
}

void CpuKernels::LogSoftmax(const LogSoftmaxArgs& args) {
  ParallelFor(args.rows, PiecesWorthAThread(args.columns),
              [&](int64_t row, int64_t end) { LogSoftmaxRows(args, row, end); });
}

void CpuKernels::LogSoftmaxBackward(const LogSoftmaxBackwardArgs& args) {
  ParallelFor(args.rows, PiecesWorthAThread(args.columns),
              [&](int64_t row, int64_t end) { LogSoftmaxRowsBackward(args, row, end); });
}

}  // namespace sluice::cpu
