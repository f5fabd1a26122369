#include "sluice/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/autograd.h"
#include "sluice/error.h"
#include "unit/nn/reference.h"

namespace sluice::nn {
namespace {

using reference::Random;
using reference::Tensor;
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

void Check(const Loss& loss, const Tensor& prediction, const NDArray& label,
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
    Check(
        SoftmaxCrossEntropyLoss(), scores, label, [&](const auto& v) { return CrossEntropy(v[0], labels); },
        &rng);
    Check(
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
    Check(
        L2Loss(), prediction, label, [&](const auto& v) { return HalfSquares(v[0], target); }, &rng);
    Check(
        L2Loss(Reduction::kMean), prediction, label,
        [&](const auto& v) { return Mean(HalfSquares(v[0], target)); }, &rng);
  }
}

template <typename F>
std::string MessageOf(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
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
