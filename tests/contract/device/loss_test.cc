// The device contract of the losses: the cross entropy of a softmax, the logarithm of a softmax, and the
// losses that compare elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "contract/device/device_test.h"
#include "contract/device/within.h"

namespace sluice::testing {
namespace {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Returns log softmax of each row of x.
Doubles LogSoftmaxOf(const Floats& x, int64_t columns) {
  const auto n = static_cast<size_t>(columns);
  Doubles result;
  for (size_t row = 0; row < x.size() / n; ++row) {
    const float* const own = x.data() + row * n;
    const double high = *std::max_element(own, own + n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::exp(own[i] - high);
    for (size_t i = 0; i < n; ++i) result.push_back(own[i] - high - std::log(sum));
  }
  return result;
}

// The cross entropy of scores in float64.
struct CrossEntropy {
  CrossEntropy(const Floats& scores, const Floats& labels, int64_t classes, double smoothing)
      : losses(labels.size()) {
    const Doubles logs = LogSoftmaxOf(scores, classes);
    const auto n = static_cast<size_t>(classes);
    for (size_t i = 0; i < logs.size(); ++i) {
      const bool own = static_cast<double>(labels[i / n]) == static_cast<double>(i % n);
      const double q = smoothing / static_cast<double>(classes) + (own ? 1 - smoothing : 0);
      if (q != 0) losses[i / n] -= q * logs[i];
      probabilities.push_back(std::exp(logs[i]));
      differences.push_back(std::exp(logs[i]) - q);
    }
  }
  Doubles losses, probabilities;
  Doubles differences;  // p - q
};

class DeviceSoftmax : public DeviceTest {
 protected:
  // Calls `run` for rows x columns of many kinds.
  template <typename Run>
  void ForShapes(Run&& run) {
    for (const int64_t rows : {0, 1, 3, 70, 101})
      for (const int64_t columns : {1, 2, 10, 33, 129, 1001}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        run(rows, columns);
      }
    run(3, 20'011);
  }
  void TryCrossEntropy(const Floats& scores, const Floats& labels, int64_t classes, float smoothing,
                       float ignored = kNoLabelIgnored) {
    SCOPED_TRACE("smoothing " + std::to_string(smoothing));
    Clear();
    const auto rows = static_cast<int64_t>(labels.size()), n = rows * classes;
    const Floats grads = Uniform(rows);
    const float *const ps = Input(scores), *const pl = Input(labels), *const pg = Input(grads);
    float *const p = Output<float>(n), *const losses = Output<float>(rows), *const to = Output<float>(n);
    Run([&](Kernels& k) {
      k.SoftmaxCrossEntropy({.rows = rows,
                             .classes = classes,
                             .smoothing = smoothing,
                             .ignored = ignored,
                             .scores = ps,
                             .labels = pl,
                             .probabilities = p,
                             .losses = losses});
      k.SoftmaxCrossEntropyBackward({.rows = rows,
                                     .classes = classes,
                                     .smoothing = smoothing,
                                     .ignored = ignored,
                                     .probabilities = p,
                                     .labels = pl,
                                     .grad = pg,
                                     .grad_scores = to});
    });
    CrossEntropy expected(scores, labels, classes, double{smoothing});
    ExpectNear(Read(p), expected.probabilities);
    for (size_t row = 0; row < labels.size(); ++row)
      if (labels[row] == ignored) expected.losses[row] = 0;
    ExpectNear(Read(losses), expected.losses);
    Doubles by_scores, terms;
    for (size_t i = 0; i < scores.size(); ++i) {
      const size_t row = i / static_cast<size_t>(classes);
      const double grad = labels[row] == ignored ? 0 : grads[row];
      by_scores.push_back(grad * expected.differences[i]);
      terms.push_back(grad * expected.probabilities[i]);
    }
    ExpectWithin(Read(to), by_scores, terms, kFloatTolerance);
  }
  void TryLogSoftmax(const Floats& x, int64_t columns, double tolerance = kFloatTolerance) {
    Clear();
    const auto n = static_cast<int64_t>(x.size()), rows = n / columns;
    const Floats grads = Uniform(n);
    const float *const px = Input(x), *const pg = Input(grads);
    float *const y = Output<float>(n), *const to = Output<float>(n);
    Run([&](Kernels& k) {
      k.LogSoftmax({.rows = rows, .columns = columns, .x = px, .out = y});
      k.LogSoftmaxBackward({.rows = rows, .columns = columns, .y = y, .grad = pg, .grad_x = to});
    });
    const Doubles expected = LogSoftmaxOf(x, columns);
    ExpectNear(Read(y), expected, tolerance);
    Doubles sums(static_cast<size_t>(rows)), by_x;
    for (size_t i = 0; i < x.size(); ++i) sums[i / static_cast<size_t>(columns)] += grads[i];
    for (size_t i = 0; i < x.size(); ++i)
      by_x.push_back(grads[i] - std::exp(expected[i]) * sums[i / static_cast<size_t>(columns)]);
    ExpectWithin(Read(to), by_x, {grads.begin(), grads.end()}, kFloatTolerance);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceSoftmax);

TEST_P(DeviceSoftmax, CrossEntropyAndItsGradient) {
  ForShapes([&](int64_t rows, int64_t classes) {
    const Floats scores = Uniform(rows * classes, -5, 5), labels = Whole<float>(rows, 0, classes - 1);
    for (const float smoothing : {0.0f, 0.1f, 1.0f}) TryCrossEntropy(scores, labels, classes, smoothing);
  });
}

// Rows of a label that is ignored, which needs not be a class, have no loss and no gradient.
TEST_P(DeviceSoftmax, CrossEntropyIgnoresALabel) {
  for (const float ignored : {2.0f, -1.0f}) {
    Floats labels = Whole<float>(70, 0, 10);
    for (size_t i = 0; i < labels.size(); i += 3) labels[i] = ignored;
    TryCrossEntropy(Uniform(70 * 11, -5, 5), labels, 11, 0.1f, ignored);
  }
}

// A softmax depends on the differences of scores only, and these are exact here.
TEST_P(DeviceSoftmax, CrossEntropyOfLargeScoresDoesNotOverflow) {
  for (const double scale : {100.0, 1e4, 1e30, 1.5e38}) {
    SCOPED_TRACE(scale);
    for (const double base : {0.0, 1.0, -1.0}) {
      Floats scores;
      for (const double step : {0.0, 0.0, -0.25, -0.5, 0.0, -1.0, 0.0, 0.0, 0.0})
        scores.push_back(static_cast<float>(scale * (base + step)));
      for (const float smoothing : {0.0f, 0.1f, 1.0f}) TryCrossEntropy(scores, {0, 2, 1}, 3, smoothing);
    }
  }
  TryCrossEntropy({2e38f, 2e38f, -2e38f, -2e38f}, {0, 1}, 2, 0.1f);
  TryCrossEntropy({1e4f, 1e4f - 1, -1e4f, 1 - 1e4f, 88, 89, 104, 103, -120, -121}, {0, 1, 0, 1, 0}, 2, 0.1f);
}

TEST_P(DeviceSoftmax, CrossEntropyOfScoresOfMinusInfinity) {
  const Floats scores = {-kInf, 1, 2, 0.5f, -kInf, -kInf, 3, 3, -kInf};
  TryCrossEntropy(scores, {1, 0, 0}, 3, 0);
  // The probability of the label, or of a class that smoothing asks for, is 0.
  TryCrossEntropy(scores, {0, 1, 2}, 3, 0);
  for (const float smoothing : {0.1f, 1.0f}) TryCrossEntropy(scores, {1, 0, 0}, 3, smoothing);
}

// The scores' mean under smoothed labels has the digits of their differences, however large they are.
TEST_P(DeviceSoftmax, SmoothingLosesNoDigitsOfLargeScores) {
  for (const double base : {1e5, 1e6, 1e7}) {
    SCOPED_TRACE(base);
    Floats scores = Uniform(4000);
    for (float& score : scores) score = static_cast<float>(base + 8 * std::round(double{score} * 2));
    TryCrossEntropy(scores, {0, 1, 2, 999}, 1000, 0.1f);
  }
}

// Differences of scores, and their sum over the classes, may be beyond float32 where the loss is not.
TEST_P(DeviceSoftmax, SmoothingTakesScoresAtTheEndOfTheRange) {
  TryCrossEntropy({2e38f, -2e38f}, {0}, 2, 0.1f);
  Floats scores(12'000, -3.3e38f);
  for (size_t row = 0; row < 3; ++row) scores[row * 4000 + 7] = 3.3e38f;
  TryCrossEntropy(scores, {7, 7, 7}, 4000, 0.25f);
}

TEST_P(DeviceSoftmax, CrossEntropyRefusesALabelThatIsNoClassAndNamesIt) {
  const std::pair<float, const char*> bad[] = {
      {-1, "label -1 "}, {7, "label 7 "},      {0.5f, "label 0.5 "}, {6.5f, "label 6.5 "},
      {1e9f, "label 1"}, {kNaN, "label nan "}, {kInf, "label inf "}, {-kInf, "label -inf "}};
  for (const auto& [label, named] : bad) {
    SCOPED_TRACE(label);
    for (const int64_t rows : {1, 100, 3000}) {
      Clear();
      Floats labels = Whole<float>(rows, 0, 6);
      labels[static_cast<size_t>(Below(rows))] = label;
      const float *const scores = Input(Uniform(rows * 7)), *const pl = Input(labels);
      float *const p = Output<float>(rows * 7), *const losses = Output<float>(rows);
      const std::string message = ErrorOfRun(ErrorCode::kInvalidArgument, [&](Kernels& k) {
        k.SoftmaxCrossEntropy({.rows = rows,
                               .classes = 7,
                               .smoothing = 0,
                               .scores = scores,
                               .labels = pl,
                               .probabilities = p,
                               .losses = losses});
      });
      EXPECT_NE(message.find(named), std::string::npos) << message;
    }
  }
}

TEST_P(DeviceSoftmax, LogSoftmaxAndItsGradient) {
  ForShapes([&](int64_t rows, int64_t columns) { TryLogSoftmax(Uniform(rows * columns, -5, 5), columns); });
}

TEST_P(DeviceSoftmax, LogSoftmaxOfLargeNumbersKeepsTheDigitsOfTheLogarithm) {
  TryLogSoftmax({1e6f, 1e6f - 1, 1e6f - 2, -1e6f, 1 - 1e6f, 2 - 1e6f}, 3, 1e-6);
  TryLogSoftmax({3e38f, 3e38f, 3e38f, -3e38f, -3e38f, -3e38f, 1e30f, 0, -1e30f}, 3, 1e-6);
  TryLogSoftmax({88, 89, 90, 104, 103, 102, -120, -121, -122, 200, 100, 0}, 3, 1e-6);
}

TEST_P(DeviceSoftmax, LogSoftmaxOfMinusInfinity) {
  TryLogSoftmax({-kInf, 1, 2, 0.5f, -kInf, -kInf, 3, 3, -kInf}, 3);
}

// An element's loss, and its derivative by the prediction.
struct Element {
  double loss, slope;
};
Element ElementOf(RowLossKind kind, double rho, double p, double l) {
  const double d = p - l, sign = d > 0 ? 1 : (d < 0 ? -1 : 0);
  switch (kind) {
    case RowLossKind::kSquare:
      return {d * d / 2, d};
    case RowLossKind::kAbsolute:
      return {std::abs(d), sign};
    case RowLossKind::kHuber:
      if (std::abs(d) <= rho) return {d * d / (2 * rho), d / rho};
      return {std::abs(d) - rho / 2, sign};
    case RowLossKind::kLogistic:
      return {std::max(p, 0.0) - p * l + std::log1p(std::exp(-std::abs(p))), 1 / (1 + std::exp(-p)) - l};
    case RowLossKind::kDivergence:
      break;
  }
  return {l == 0 && p == -HUGE_VAL ? 0 : l * (std::log(l + 1e-12) - p), -l};
}

constexpr std::pair<RowLossKind, float> kKinds[] = {
    {RowLossKind::kSquare, 1.0f},    {RowLossKind::kAbsolute, 1.0f}, {RowLossKind::kHuber, 1.0f},
    {RowLossKind::kHuber, 0.25f},    {RowLossKind::kHuber, 3.0f},    {RowLossKind::kLogistic, 1.0f},
    {RowLossKind::kDivergence, 1.0f}};

class DeviceRowLoss : public DeviceTest {
 protected:
  // Tries rows of `columns` elements. Each number is compared for itself or, where `terms` is not 0, as a
  // difference of terms of that size.
  void Try(RowLossKind kind, float rho, int64_t columns, const Floats& predictions, const Floats& labels,
           double terms = 0) {
    Clear();
    const auto n = static_cast<size_t>(columns), rows = predictions.size() / n;
    const RowLossShape shape{
        .kind = kind, .rows = static_cast<int64_t>(rows), .columns = columns, .rho = rho};
    const Floats grads = Uniform(shape.rows);
    const float *const p = Input(predictions), *const l = Input(labels), *const g = Input(grads);
    float *const losses = Output<float>(shape.rows), *const to = Output<float>(shape.rows * columns);
    Run([&](Kernels& k) {
      k.RowLoss({.shape = shape, .prediction = p, .label = l, .losses = losses});
      k.RowLossBackward({.shape = shape, .prediction = p, .label = l, .grad = g, .grad_prediction = to});
    });
    Doubles expected(rows), gradients;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const Element element = ElementOf(kind, rho, predictions[i], labels[i]);
      expected[i / n] += element.loss / static_cast<double>(n);
      gradients.push_back(element.slope * grads[i / n] / static_cast<double>(n));
    }
    if (terms != 0) {
      ExpectWithin(Read(losses), expected, Doubles(rows, terms), kFloatTolerance);
      Doubles largest;
      for (size_t i = 0; i < predictions.size(); ++i)
        largest.push_back(terms * grads[i / n] / static_cast<double>(n));
      ExpectWithin(Read(to), gradients, largest, kFloatTolerance);
      return;
    }
    for (size_t i = 0; i < rows; ++i) {
      SCOPED_TRACE("row " + std::to_string(i));
      ExpectNear({Read(losses)[i]}, {expected[i]});
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      SCOPED_TRACE("prediction " + std::to_string(predictions[i]) + ", label " + std::to_string(labels[i]));
      ExpectNear({Read(to)[i]}, {gradients[i]});
    }
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceRowLoss);

TEST_P(DeviceRowLoss, EveryKindAndItsGradient) {
  for (const auto& [kind, rho] : kKinds)
    for (const int64_t rows : {0, 1, 3, 41, 301})
      for (const int64_t columns : {1, 2, 7, 64, 1000, 1025, 3001}) {
        if (rows * columns > 125'000) continue;
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + ", rho " + std::to_string(rho) +
                     ", " + std::to_string(rows) + " x " + std::to_string(columns));
        Floats predictions = Uniform(rows * columns, -3, 3), labels = Uniform(rows * columns, 0, 1);
        for (size_t i = 0; i < labels.size(); i += 5) {
          labels[i] = static_cast<float>(Below(2));
          if (Below(2) == 0) predictions[i] = labels[i];
        }
        Try(kind, rho, columns, predictions, labels, /*terms=*/1);
      }
}

TEST_P(DeviceRowLoss, NumbersFarApartDoNotOverflow) {
  const Floats far = {1e18f, -1e18f, 100, -100, 0, 0.25f}, labels(6, 0.5f);
  for (const auto& [kind, rho] : kKinds) Try(kind, rho, 1, far, labels);
  for (const RowLossKind kind : {RowLossKind::kAbsolute, RowLossKind::kHuber, RowLossKind::kDivergence})
    Try(kind, 0.5f, 1, {1e38f, -1e38f, 3e38f, -3e38f}, {0, 0, 0.5f, 0.5f});
  Try(RowLossKind::kHuber, 1e30f, 1, {1e25f, -1e25f, 1e36f, 2}, {0, 0, 0, 2});
}

TEST_P(DeviceRowLoss, LogisticOfLargeScoresDoesNotOverflow) {
  Floats scores, labels;
  for (const float score : {0.0f, 1.0f, 15.0f, 20.0f, 87.0f, 88.0f, 104.0f, 1e4f, 1e38f})
    for (const float sign : {1.0f, -1.0f})
      for (const float label : {0.0f, 0.25f, 1.0f}) {
        // Where e^-score alone is left, a float32 may hold 0 instead.
        const bool tiny = score > 10 && label == (sign > 0 ? 1 : 0);
        if (tiny) continue;
        scores.push_back(sign * score);
        labels.push_back(label);
      }
  Try(RowLossKind::kLogistic, 1, 1, scores, labels);
  Try(RowLossKind::kLogistic, 1, 2, {1e4f, 1, -1e4f, 1, 1e38f, 1, -1e38f, 1}, {1, 0, 0, 0, 1, 1, 0, 1});
}

TEST_P(DeviceRowLoss, DivergenceOfAnImpossibleClassIs0) {
  Try(RowLossKind::kDivergence, 1, 1, {-kInf, -kInf, -1, 0, -2}, {0, 0.5f, 0, 0, 1e-12f});
  Try(RowLossKind::kDivergence, 1, 3, {-kInf, -0.5f, -kInf, -1, -kInf, -2}, {0, 1, 0, 0.5f, 0, 0.25f});
}

}  // namespace
}  // namespace sluice::testing
