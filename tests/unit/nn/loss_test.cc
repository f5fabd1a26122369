// Tests the losses, forward and backward, against formulas in float64, with weights, labels of every type and
// scores that overflow naive formulas.
#include "sluice/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sluice/autograd.h"
#include "sluice/ops.h"
#include "unit/expect_error.h"
#include "unit/nn/message_of.h"
#include "unit/nn/reference.h"

namespace sluice::nn {
namespace {

using reference::Random;
using reference::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Losses of each sample in float64, then of the whole batch.
Tensor CrossEntropy(const Tensor& scores, const std::vector<int32_t>& labels) {
  Tensor losses({scores.shape[0]});
  const int64_t classes = scores.shape[1];
  for (int64_t n = 0; n < scores.shape[0]; ++n) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(scores.at(n * classes + c));
    losses.at(n) = std::log(sum) - scores.at(n * classes + labels[static_cast<size_t>(n)]);
  }
  return losses;
}

Tensor HalfSquares(const Tensor& a, const Tensor& b) {
  Tensor losses({a.shape[0]});
  const int64_t width = a.shape.size() / a.shape[0];
  for (int64_t i = 0; i < a.shape.size(); ++i) {
    losses.at(i / width) += 0.5 * (a.at(i) - b.at(i)) * (a.at(i) - b.at(i)) / static_cast<double>(width);
  }
  return losses;
}

Tensor Mean(const Tensor& x) {
  Tensor mean({1});
  for (const double value : x.values) mean.at(0) += value / static_cast<double>(x.values.size());
  return mean;
}

void CheckLoss(const Loss& loss, const Tensor& prediction, const NDArray& label,
               const reference::Function& function, Rng* rng) {
  NDArray x = reference::ToNDArray(prediction);
  autograd::AttachGrad(x);
  NDArray y;
  {
    autograd::RecordScope record;
    y = loss(x, label);
  }
  const Tensor expected = function({prediction});
  reference::ExpectClose(y, expected);
  const Tensor head = Random(expected.shape, rng);
  autograd::Backward({y}, {reference::ToNDArray(head)});
  reference::ExpectClose(autograd::Grad(x), reference::Gradient(function, {prediction}, 0, head));
}

TEST(SoftmaxCrossEntropyTest, MatchesTheReference) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Rng rng(seed);
    const auto batch = static_cast<int64_t>(1 + rng.Below(9)),
               classes = static_cast<int64_t>(2 + rng.Below(15));
    const Tensor scores = Random({batch, classes}, &rng);
    std::vector<int32_t> labels;
    for (int64_t n = 0; n < batch; ++n)
      labels.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(classes))));
    const NDArray label = NDArray::From(std::span<const int32_t>(labels), {batch});
    CheckLoss(
        SoftmaxCrossEntropyLoss(), scores, label, [&](const auto& v) { return CrossEntropy(v[0], labels); },
        &rng);
    CheckLoss(
        SoftmaxCrossEntropyLoss(Reduction::kMean), scores, label,
        [&](const auto& v) { return Mean(CrossEntropy(v[0], labels)); }, &rng);
  }
}

TEST(SoftmaxCrossEntropyTest, TakesLabelsOfEveryWholeType) {
  const NDArray scores = NDArray::From({0.1f, 0.9f, 0.4f, 0.3f, 0.2f, 0.8f}, {2, 3});
  const std::vector<int32_t> int32 = {2, 0};
  const std::vector<int64_t> int64 = {2, 0};
  const std::vector<uint8_t> uint8 = {2, 0};
  const std::vector<float> expected =
      SoftmaxCrossEntropyLoss()(scores, NDArray::From({2, 0}, {2})).ToVector();
  EXPECT_NEAR(expected[0], std::log(std::exp(0.1) + std::exp(0.9) + std::exp(0.4)) - 0.4, 1e-6);
  for (const NDArray& label : {NDArray::From(std::span<const int32_t>(int32), {2}),
                               NDArray::From(std::span<const int64_t>(int64), {2}),
                               NDArray::From(std::span<const uint8_t>(uint8), {2})}) {
    EXPECT_EQ(SoftmaxCrossEntropyLoss()(scores, label).ToVector(), expected) << Name(label.dtype());
  }
}

TEST(SoftmaxCrossEntropyTest, SurvivesHugeScores) {
  const std::vector<int32_t> labels = {0, 1};
  const NDArray label = NDArray::From(std::span<const int32_t>(labels), {2});
  const std::vector<float> losses =
      SoftmaxCrossEntropyLoss()(NDArray::From({1000, 0, 1000, 0}, {2, 2}), label).ToVector();
  EXPECT_EQ(losses[0], 0);
  EXPECT_EQ(losses[1], 1000);
}

TEST(L2Test, MatchesTheReference) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Rng rng(seed);
    const Shape shape = seed % 2 == 0 ? Shape{4, 3} : Shape{2, 3, 2, 2};
    const Tensor target = Random(shape, &rng);
    const NDArray label = reference::ToNDArray(target);
    const Tensor prediction = Random(shape, &rng);
    CheckLoss(
        L2Loss(), prediction, label, [&](const auto& v) { return HalfSquares(v[0], target); }, &rng);
    CheckLoss(
        L2Loss(Reduction::kMean), prediction, label,
        [&](const auto& v) { return Mean(HalfSquares(v[0], target)); }, &rng);
  }
}

// The mean over each sample's elements of f(prediction, label).
Tensor RowMeans(const Tensor& p, const Tensor& l, const std::function<double(double, double)>& f) {
  Tensor losses({p.shape[0]});
  const int64_t width = p.shape[0] == 0 ? 1 : p.shape.size() / p.shape[0];
  for (int64_t i = 0; i < p.shape.size(); ++i)
    losses.at(i / width) += f(p.at(i), l.at(i)) / static_cast<double>(width);
  return losses;
}

Tensor Probabilities(const Shape& shape, Rng* rng) {
  Tensor q = Random(shape, rng);
  for (double& value : q.values) value = static_cast<float>((value + 1) / 2);
  return q;
}

struct ElementLoss {
  std::shared_ptr<Loss> loss, mean;
  std::function<double(double, double)> f;
};

TEST(ElementLossTest, MatchTheReference) {
  const auto huber = [](double rho) {
    return [rho](double p, double l) {
      const double d = std::fabs(p - l);
      return d > rho ? d - rho / 2 : d * d / (2 * rho);
    };
  };
  const ElementLoss losses[] = {
      {std::make_shared<L1Loss>(), std::make_shared<L1Loss>(Reduction::kMean),
       [](double p, double l) { return std::fabs(p - l); }},
      {std::make_shared<HuberLoss>(), std::make_shared<HuberLoss>(1.0f, Reduction::kMean), huber(1)},
      {std::make_shared<HuberLoss>(0.25f), std::make_shared<HuberLoss>(0.25f, Reduction::kMean), huber(0.25)},
      {std::make_shared<SigmoidBinaryCrossEntropyLoss>(),
       std::make_shared<SigmoidBinaryCrossEntropyLoss>(Reduction::kMean),
       [](double p, double l) { return std::log1p(std::exp(p)) - p * l; }},
      {std::make_shared<KLDivLoss>(), std::make_shared<KLDivLoss>(true, Reduction::kMean),
       [](double p, double l) { return l * (std::log(l + 1e-12) - p); }}};
  uint64_t seed = 0;
  for (const ElementLoss& element : losses) {
    // The last: more than one piece of a row, and no row.
    for (const Shape& shape : {Shape{5}, Shape{4, 1}, Shape{3, 2, 5}, Shape{2, 1030}, Shape{0, 3}}) {
      Rng rng(++seed);
      const Tensor prediction = Random(shape, &rng), label = Probabilities(shape, &rng);
      const auto f = [&](const auto& v) { return RowMeans(v[0], label, element.f); };
      CheckLoss(*element.loss, prediction, reference::ToNDArray(label), f, &rng);
      if (shape[0] > 0) {
        CheckLoss(
            *element.mean, prediction, reference::ToNDArray(label), [&](const auto& v) { return Mean(f(v)); },
            &rng);
      }
    }
  }
}

TEST(ElementLossTest, LabelsOfOneNumberFitPredictionsOfOne) {
  const NDArray p = NDArray::From({1, 3}, {2, 1}), l = NDArray::From({0, 5}, {2});
  EXPECT_THAT(L1Loss()(p, l).ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(L2Loss()(p, l).ToVector(), ElementsAre(0.5f, 2));
}

TEST(ElementLossTest, DifferencesGiveLabelsTheirGradientToo) {
  NDArray l = NDArray::From({0, 5}, {2});
  autograd::AttachGrad(l);
  NDArray loss;
  {
    const autograd::RecordScope record;
    loss = L1Loss()(NDArray::From({1, 3}, {2}), l);
  }
  autograd::Backward({loss});
  EXPECT_THAT(autograd::Grad(l).ToVector(), ElementsAre(-1, 1));
}

TEST(SigmoidBinaryCrossEntropyTest, SurvivesHugeScores) {
  const std::vector<float> losses =
      SigmoidBinaryCrossEntropyLoss()(NDArray::From({1000, 1000, -1000, -1000}, {4}),
                                      NDArray::From({1, 0, 1, 0}, {4}))
          .ToVector();
  EXPECT_THAT(losses, ElementsAre(0, 1000, 1000, 0));
}

// log softmax of each row.
Tensor LogSoftmax(const Tensor& x) {
  Tensor y = x;
  const int64_t columns = x.shape[x.shape.ndim() - 1];
  for (int64_t row = 0; row < x.shape.size() / columns; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += std::exp(x.at(row * columns + j));
    for (int64_t j = 0; j < columns; ++j) y.at(row * columns + j) -= std::log(sum);
  }
  return y;
}

// What cannot be and is not expected costs nothing; what is expected all the same has no bound.
TEST(KLDivTest, AnImpossibleClassThatIsNotExpectedIsNoLoss) {
  const NDArray label = NDArray::From({0, 1, 0.5, 0.5}, {2, 2});
  const float from_logits = std::log(1 + 1e-12f);
  for (const bool logits : {true, false}) {
    NDArray x = NDArray::From({-INFINITY, 0, -INFINITY, 0}, {2, 2}), y;
    autograd::AttachGrad(x);
    {
      const autograd::RecordScope record;
      y = KLDivLoss(logits)(x, label);
    }
    autograd::Backward({y});
    EXPECT_THAT(y.ToVector(), ElementsAre(from_logits, INFINITY));
    const std::vector<float> gradient = autograd::Grad(x).ToVector();
    EXPECT_EQ(gradient[0], 0);
    EXPECT_EQ(gradient[1], logits ? -0.5f : 0);
  }
  EXPECT_THAT(KLDivLoss()(NDArray::From({NAN, 0}, {1, 2}), NDArray::From({0, 1}, {1, 2})).ToVector(),
              ElementsAre(::testing::IsNan()));
}

TEST(HuberTest, ADenormalRhoDividesNothingByZero) {
  NDArray x = NDArray::From({3, 3, 3}, {3, 1}), y;
  const NDArray label = NDArray::From({3, 4, 1}, {3, 1});
  autograd::AttachGrad(x);
  {
    const autograd::RecordScope record;
    y = HuberLoss(1e-40f)(x, label);
  }
  autograd::Backward({y});
  EXPECT_THAT(y.ToVector(), ElementsAre(0, 1, 2));
  EXPECT_THAT(autograd::Grad(x).ToVector(), ElementsAre(0, -1, 1));
}

TEST(KLDivTest, TakesTheSoftmaxWithoutLogits) {
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 70}}) {
    Rng rng(17);
    const Tensor label = Probabilities(shape, &rng);
    CheckLoss(
        KLDivLoss(/*from_logits=*/false), Random(shape, &rng), reference::ToNDArray(label),
        [&](const auto& v) {
          return RowMeans(LogSoftmax(v[0]), label,
                          [](double p, double l) { return l * (std::log(l + 1e-12) - p); });
        },
        &rng);
  }
}

// -sum_j q_j log softmax_j with q = (1 - smoothing) q + smoothing / classes.
Tensor CrossEntropyWith(const Tensor& scores, const Tensor& q, double smoothing) {
  Tensor losses({scores.shape[0]});
  const Tensor logs = LogSoftmax(scores);
  const int64_t classes = scores.shape[1];
  for (int64_t i = 0; i < scores.shape.size(); ++i)
    losses.at(i / classes) -=
        ((1 - smoothing) * q.at(i) + smoothing / static_cast<double>(classes)) * logs.at(i);
  return losses;
}

TEST(SoftmaxCrossEntropyTest, SmoothsLabels) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Rng rng(seed);
    const int64_t batch = 1 + static_cast<int64_t>(rng.Below(70)),
                  classes = 2 + static_cast<int64_t>(rng.Below(40));
    const auto smoothing = static_cast<float>(rng.Uniform());
    std::vector<int32_t> labels;
    Tensor q({batch, classes});
    for (int64_t n = 0; n < batch; ++n) {
      labels.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(classes))));
      q.at(n * classes + labels.back()) = 1;
    }
    const Tensor scores = Random({batch, classes}, &rng);
    const SoftmaxCrossEntropyLoss loss({.label_smoothing = smoothing});
    CheckLoss(
        loss, scores, NDArray::From(std::span<const int32_t>(labels), {batch}),
        [&](const auto& v) { return CrossEntropyWith(v[0], q, smoothing); }, &rng);
    const Tensor mixed = Probabilities({batch, classes}, &rng);
    CheckLoss(
        loss, scores, reference::ToNDArray(mixed),
        [&](const auto& v) { return CrossEntropyWith(v[0], mixed, smoothing); }, &rng);
    CheckLoss(
        SoftmaxCrossEntropyLoss(), scores, reference::ToNDArray(mixed),
        [&](const auto& v) { return CrossEntropyWith(v[0], mixed, 0); }, &rng);
  }
}

// The mean of `each` losses, one sample after another.
Tensor MeanOfEach(const Tensor& losses, int64_t batch, int64_t each) {
  Tensor means({batch});
  for (int64_t i = 0; i < batch * each; ++i) means.at(i / each) += losses.at(i) / static_cast<double>(each);
  return means;
}

// As Gluon's: classes are the last axis, and a sample's loss is the mean over its steps.
TEST(SoftmaxCrossEntropyTest, TakesStepsBetweenBatchAndClasses) {
  for (const Shape& shape : {Shape{3, 5, 4}, Shape{2, 1, 6}, Shape{4, 2, 3, 7}}) {
    Rng rng(11);
    const int64_t batch = shape[0], classes = shape[shape.ndim() - 1], rows = shape.size() / classes;
    const Shape steps = shape.WithoutAxis(shape.ndim() - 1);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < rows; ++i)
      labels.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(classes))));
    const Tensor scores = Random(shape, &rng);
    const auto as_rows = [&](Tensor t) {
      t.shape = {rows, classes};
      return t;
    };
    const NDArray label = NDArray::From(std::span<const int32_t>(labels), steps);
    CheckLoss(
        SoftmaxCrossEntropyLoss(), scores, label,
        [&](const auto& v) { return MeanOfEach(CrossEntropy(as_rows(v[0]), labels), batch, rows / batch); },
        &rng);
    Tensor mixed = Probabilities({rows, classes}, &rng);
    NDArray q = reference::ToNDArray(mixed);
    CheckLoss(
        SoftmaxCrossEntropyLoss({.label_smoothing = 0.1f}), scores, ops::Reshape(q, shape),
        [&](const auto& v) {
          return MeanOfEach(CrossEntropyWith(as_rows(v[0]), mixed, 0.1f), batch, rows / batch);
        },
        &rng);
  }
  const NDArray scores({2, 3, 4});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { SoftmaxCrossEntropyLoss()(scores, NDArray({6})); }),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        SoftmaxCrossEntropyLoss()(scores, NDArray({3, 2}));
                      }),
              HasSubstr("do not fit"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        SoftmaxCrossEntropyLoss()(NDArray({2, 0, 4}), NDArray({2, 0}));
                      }),
              HasSubstr("have no scores"));
}

// Padding is no loss, has no gradient, and needs not be a class.
TEST(SoftmaxCrossEntropyTest, IgnoresALabelAndSumsSteps) {
  for (const int32_t ignored : {0, -1}) {
    Rng rng(5);
    const int64_t batch = 3, steps = 4, classes = 5;
    std::vector<int32_t> labels = {1, 2, ignored, ignored, 3,       ignored,
                                   4, 1, ignored, ignored, ignored, ignored};
    const Tensor scores = Random({batch, steps, classes}, &rng);
    const NDArray label = NDArray::From(std::span<const int32_t>(labels), {batch, steps});
    const auto expected = [&](const Tensor& v, double divisor) {
      Tensor rows = v;
      rows.shape = {batch * steps, classes};
      std::vector<int32_t> classes_of_rows = labels;
      for (int32_t& of : classes_of_rows) of = std::max(of, 0);
      const Tensor losses = CrossEntropy(rows, classes_of_rows);
      Tensor sums({batch});
      for (int64_t i = 0; i < batch * steps; ++i)
        if (labels[static_cast<size_t>(i)] != ignored) sums.at(i / steps) += losses.at(i) / divisor;
      return sums;
    };
    using Options = SoftmaxCrossEntropyLoss::Options;
    CheckLoss(
        SoftmaxCrossEntropyLoss(Options{.ignored_label = ignored, .sums_steps = true}), scores, label,
        [&](const auto& v) { return expected(v[0], 1); }, &rng);
    CheckLoss(
        SoftmaxCrossEntropyLoss(Options{.ignored_label = ignored}), scores, label,
        [&](const auto& v) { return expected(v[0], steps); }, &rng);
  }
  const SoftmaxCrossEntropyLoss ignoring({.ignored_label = 0});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        ignoring(NDArray({2, 3}), NDArray({2, 3}));
                      }),
              HasSubstr("which have no class 0 that could be ignored"));
}

TEST(SoftmaxCrossEntropyTest, OneClassAndNoRowsCostNothing) {
  EXPECT_THAT(
      SoftmaxCrossEntropyLoss()(NDArray::From({3, -2}, {2, 1}), NDArray::From({0, 0}, {2})).ToVector(),
      ElementsAre(0, 0));
  EXPECT_EQ(SoftmaxCrossEntropyLoss()(NDArray({0, 5}), NDArray(Shape{0})).shape(), Shape{0});
}

TEST(LossTest, WeightsMultiplySamples) {
  Rng rng(23);
  const Tensor prediction = Random({3, 2}, &rng), target = Random({3, 2}, &rng);
  const double weights[] = {0.5, 0, 3};
  const auto weighted = [&](const auto& v) {
    Tensor losses = HalfSquares(v[0], target);
    for (int64_t n = 0; n < 3; ++n) losses.at(n) *= weights[n];
    return losses;
  };
  for (const Shape& shape : {Shape{3}, Shape{3, 1}}) {
    const NDArray weight = NDArray::From({0.5, 0, 3}, shape), label = reference::ToNDArray(target);
    NDArray x = reference::ToNDArray(prediction), y;
    autograd::AttachGrad(x);
    {
      const autograd::RecordScope record;
      y = L2Loss()(x, label, weight);
    }
    reference::ExpectClose(y, weighted(std::vector<Tensor>{prediction}));
    reference::ExpectClose(L2Loss(Reduction::kMean)(x, label, weight),
                           Mean(weighted(std::vector<Tensor>{prediction})));
    autograd::Backward({y});
    Tensor ones({3});
    ones.values = {1, 1, 1};
    reference::ExpectClose(autograd::Grad(x), reference::Gradient(weighted, {prediction}, 0, ones));
  }
}

TEST(LossTest, RefusesWhatCannotBe) {
  EXPECT_THAT(MessageOf([] { HuberLoss(0); }), HasSubstr("HuberLoss: rho is 0"));
  EXPECT_THAT(MessageOf([] { SoftmaxCrossEntropyLoss({.label_smoothing = 1.5}); }),
              HasSubstr("label_smoothing is 1.5"));
  EXPECT_THAT(MessageOf([] {
                L2Loss()(NDArray({2, 3}), NDArray({2, 3}), NDArray(Shape{3}));
              }),
              HasSubstr("L2Loss: the weights [3] of samples must be of shape [2]"));
  EXPECT_THAT(MessageOf([] {
                KLDivLoss()(NDArray({2, 3}), NDArray({2, 4}));
              }),
              HasSubstr("KLDivLoss: labels [2, 4] and predictions [2, 3]"));
  EXPECT_THAT(MessageOf([] { L1Loss()(NDArray({2, 0}), NDArray({2, 0})); }), HasSubstr("have no elements"));
}

TEST(LossTest, NamesTheShapesThatDoNotFit) {
  const std::vector<int32_t> labels = {0, 1, 0};
  const NDArray label = NDArray::From(std::span<const int32_t>(labels), {3});
  EXPECT_THAT(MessageOf([&] {
                SoftmaxCrossEntropyLoss()(NDArray({2, 4}), label);
              }),
              HasSubstr("labels [3] and scores [2, 4]"));
  EXPECT_THAT(MessageOf([&] { SoftmaxCrossEntropyLoss()(NDArray({3}), label); }), HasSubstr("scores [3]"));
  EXPECT_THAT(MessageOf([] {
                L2Loss()(NDArray({2, 3}), NDArray({3, 2}));
              }),
              HasSubstr("labels [3, 2] and predictions [2, 3]"));
}

TEST(LossTest, NamesTheTypesThatDoNotFit) {
  const NDArray ids({2, 3}, cpu(0), DType::kInt32), x({2, 3});
  EXPECT_THAT(MessageOf([&] { SoftmaxCrossEntropyLoss()(x, ids); }),
              HasSubstr("SoftmaxCrossEntropyLoss: labels [2, 3] are int32; expected float32 probabilities"));
  EXPECT_THAT(MessageOf([&] { L2Loss()(x, ids); }),
              HasSubstr("L2Loss: labels [2, 3] are int32; expected float32"));
  EXPECT_THAT(MessageOf([&] { KLDivLoss()(ids, x); }), HasSubstr("KLDivLoss: predictions [2, 3] are int32"));
  const NDArray weights({2}, cpu(0), DType::kInt32);
  EXPECT_THAT(MessageOf([&] { L1Loss()(x, x, weights); }), HasSubstr("L1Loss: weights [2] are int32"));
}

TEST(LossTest, ALabelOutsideTheClassesIsAnErrorAtTheWait) {
  const std::vector<int32_t> labels = {0, 4};
  const NDArray label = NDArray::From(std::span<const int32_t>(labels), {2});
  EXPECT_THAT(MessageOf([&] {
                SoftmaxCrossEntropyLoss()(NDArray({2, 4}), label).WaitToRead();
              }),
              HasSubstr("label 4"));
}

}  // namespace
}  // namespace sluice::nn
