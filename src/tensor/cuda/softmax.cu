// Softmax of rows, the cross entropy and the log-softmax made of it, and their gradients. The highest value
// of a row is subtracted before e^x is taken, so that nothing overflows. A group of threads computes a row.
// It owns nothing. Invariants: sums are float64 and have an order that depends on the shape alone; a label
// that is no class is noted (input_check.cuh), and no score is read for it. autograd/ops/loss.cc calls it, in
// work on the stream.
#include "tensor/cuda/input_check.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/rows.cuh"
#include "tensor/formulas/exp.h"

namespace sluice::cuda {
namespace {

using formulas::Exp;

struct CrossEntropyRow {
  SoftmaxCrossEntropyArgs args;
  InputCheck check;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t classes = args.classes;
    const float* const scores = args.scores + row * classes;
    float* const p = args.probabilities + row * classes;
    const float highest = LargestOf<Group>(scores, classes);
    double sum = 0;
    for (int64_t j = Group::Place(); j < classes; j += Group::kSize) {
      p[j] = Exp(scores[j] - highest);
      sum += static_cast<double>(p[j]);
    }
    sum = Group::Join(sum, Plus{});
    const auto share = static_cast<float>(1 / sum);
    for (int64_t j = Group::Place(); j < classes; j += Group::kSize) p[j] *= share;
    const double mean = MeanUnderSmoothing<Group>(scores, static_cast<double>(highest));
    if (Group::Place() != 0) return;
    if (args.labels[row] == args.ignored) {
      args.losses[row] = 0;
      return;
    }
    const int64_t label = ReadWhole(check, BadInputKind::kLabel, args.labels, row, classes, classes);
    const double own = label < 0 ? 0 : static_cast<double>(scores[label]) - static_cast<double>(highest);
    const auto smoothing = static_cast<double>(args.smoothing);
    // What is expected of the scores (less `highest`) under the smoothed label.
    const double expected = smoothing == 1 ? mean : (1 - smoothing) * own + mean;
    args.losses[row] = static_cast<float>(std::log(sum) - expected);
  }

 private:
  // Returns smoothing times the mean of the scores less `highest`, whose sum would lose the digits of their
  // differences.
  template <typename Group>
  __device__ double MeanUnderSmoothing(const float* scores, double highest) const {
    if (args.smoothing == 0) return 0;
    const double sum =
        SumOver<Group>(args.classes, [=](int64_t j) { return static_cast<double>(scores[j]) - highest; });
    return static_cast<double>(args.smoothing) * (sum / static_cast<double>(args.classes));
  }
};

struct CrossEntropyBackwardRow {
  SoftmaxCrossEntropyBackwardArgs args;
  InputCheck check;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t classes = args.classes;
    const float grad = args.grad[row], others = -(args.smoothing / static_cast<float>(classes)) * grad;
    float* const to = args.grad_scores + row * classes;
    if (args.labels[row] == args.ignored) {
      for (int64_t j = Group::Place(); j < classes; j += Group::kSize) to[j] = 0;
      return;
    }
    const int64_t label = ReadWhole(check, BadInputKind::kLabel, args.labels, row, classes, classes);
    const float* const p = args.probabilities + row * classes;
    for (int64_t j = Group::Place(); j < classes; j += Group::kSize) {
      const float value = p[j] * grad + others;
      to[j] = j == label ? value - (1 - args.smoothing) * grad : value;
    }
  }
};

struct LogSoftmaxRow {
  LogSoftmaxArgs args;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t columns = args.columns;
    const float* const x = args.x + row * columns;
    float* const out = args.out + row * columns;
    const float highest = LargestOf<Group>(x, columns);
    const auto log =
        static_cast<float>(std::log(SumOver<Group>(columns, [=](int64_t j) { return Exp(x[j] - highest); })));
    // The two are subtracted one after the other: their sum would lose digits of the logarithm beside a
    // large score.
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize) out[j] = (x[j] - highest) - log;
  }
};

struct LogSoftmaxBackwardRow {
  LogSoftmaxBackwardArgs args;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t columns = args.columns;
    const float *const y = args.y + row * columns, *const grad = args.grad + row * columns;
    float* const to = args.grad_x + row * columns;
    const auto sum = static_cast<float>(SumOver<Group>(columns, [=](int64_t j) { return grad[j]; }));
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize) to[j] = grad[j] - sum * Exp(y[j]);
  }
};

}  // namespace

void CudaKernels::SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& args) {
  ForRows(stream_, args.rows, args.classes, CrossEntropyRow{args, Check()});
}

void CudaKernels::SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& args) {
  ForRows(stream_, args.rows, args.classes, CrossEntropyBackwardRow{args, Check()});
}

void CudaKernels::LogSoftmax(const LogSoftmaxArgs& args) {
  ForRows(stream_, args.rows, args.columns, LogSoftmaxRow{args});
}

void CudaKernels::LogSoftmaxBackward(const LogSoftmaxBackwardArgs& args) {
  ForRows(stream_, args.rows, args.columns, LogSoftmaxBackwardRow{args});
}

}  // namespace sluice::cuda
