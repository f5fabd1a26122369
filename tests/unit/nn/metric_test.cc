// Tests the metrics by counts and means that are written out by hand, over several devices and types of
// labels.
#include "sluice/metric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sluice/error.h"
#include "unit/nn/message_of.h"

namespace sluice::metric {
namespace {

using nn::MessageOf;
using ::testing::HasSubstr;

NDArray Labels(std::vector<int32_t> values, Context context = cpu(0)) {
  return NDArray::From(std::span<const int32_t>(values), {static_cast<int64_t>(values.size())}, context);
}

TEST(Accuracy, CountsTheHighestScoresOverAllDevices) {
  Accuracy accuracy;
  EXPECT_TRUE(std::isnan(accuracy.value()));
  accuracy.Update({Labels({2, 0}), Labels({1}, cpu(1))},
                  {NDArray::From({0.1f, 0.2f, 0.7f, 0.1f, 0.8f, 0.1f}, {2, 3}),
                   NDArray::From({0, 1, 0}, {1, 3}, cpu(1))});
  EXPECT_EQ(accuracy.count(), 3);
  EXPECT_DOUBLE_EQ(accuracy.value(), 2.0 / 3);
  accuracy.Update(Labels({0}), NDArray::From({1, 0, 0}, {1, 3}));
  EXPECT_DOUBLE_EQ(accuracy.value(), 3.0 / 4);
  accuracy.Reset();
  EXPECT_TRUE(std::isnan(accuracy.value()));
}

TEST(Accuracy, OfEqualScoresTheLowerClassWins) {
  Accuracy accuracy;
  accuracy.Update(Labels({0, 1}), NDArray::From({0.5f, 0.5f, 0.5f, 0.5f}, {2, 2}));
  EXPECT_DOUBLE_EQ(accuracy.value(), 0.5);
}

TEST(Accuracy, NanIsNeverRight) {
  Accuracy accuracy;
  accuracy.Update(Labels({0}), NDArray::From({NAN, NAN}, {1, 2}));
  EXPECT_DOUBLE_EQ(accuracy.value(), 0);
}

TEST(Accuracy, TakesLabelsOfEveryWholeType) {
  const NDArray scores = NDArray::From({0, 1, 1, 0}, {2, 2});
  const std::vector<int64_t> wide = {1, 0};
  const std::vector<uint8_t> narrow = {1, 0};
  for (const NDArray& labels :
       {NDArray::From(std::span<const int64_t>(wide), {2}),
        NDArray::From(std::span<const uint8_t>(narrow), {2}), NDArray::From({1, 0}, {2, 1})}) {
    Accuracy accuracy;
    accuracy.Update(labels, scores);
    EXPECT_DOUBLE_EQ(accuracy.value(), 1) << Name(labels.dtype());
  }
}

// MXNet's flattens both. Four of the six labels, those at 0, 1, 3 and 5, are right.
TEST(Accuracy, TakesLabelsOfAnyShapeRowByRow) {
  const std::vector<int32_t> values = {1, 0, 1, 1, 0, 1};
  const std::vector<float> scores = {0, 1, 2, 1, 4, 3, 0, 5, 1, 6, 0, 1};
  for (const auto& [labels, predictions] :
       {std::pair(Shape{2, 3}, Shape{6, 2}), std::pair(Shape{2, 3}, Shape{2, 3, 2}),
        std::pair(Shape{2, 3, 1}, Shape{2, 3, 2}), std::pair(Shape{6}, Shape{6, 2})}) {
    Accuracy accuracy;
    accuracy.Update(NDArray::From(std::span<const int32_t>(values), labels),
                    NDArray::From(std::span<const float>(scores), predictions));
    EXPECT_EQ(accuracy.count(), 6);
    EXPECT_DOUBLE_EQ(accuracy.value(), 4.0 / 6) << labels << predictions;
  }
  Accuracy accuracy;
  for (const auto& [labels, predictions] :
       {std::pair(Shape{3, 2}, Shape{2, 3, 2}), std::pair(Shape{6}, Shape{2, 3, 2}),
        std::pair(Shape{2, 3}, Shape{12}), std::pair(Shape{2, 3}, Shape{4, 3})}) {
    EXPECT_THAT(MessageOf([&] {
                  accuracy.Update(NDArray::From(std::span<const int32_t>(values), labels),
                                  NDArray::From(std::span<const float>(scores), predictions));
                }),
                HasSubstr("do not fit predictions"));
  }
}

TEST(Accuracy, SaysWhatDoesNotFit) {
  Accuracy accuracy;
  const NDArray scores = NDArray::From({0, 1, 1, 0}, {2, 2});
  EXPECT_THAT(MessageOf([&] {
                accuracy.Update(Labels({1, 0, 1}), scores);
              }),
              HasSubstr("accuracy: labels of shape [3] do not fit predictions of shape [2, 2]"));
  EXPECT_THAT(MessageOf([&] {
                accuracy.Update(Labels({1, 2}), scores);
              }),
              HasSubstr("label 2 of sample 1 is outside the 2 classes"));
  EXPECT_THAT(MessageOf([&] { accuracy.Update(Labels({-1, 0}), scores); }), HasSubstr("label -1"));
  EXPECT_THAT(MessageOf([&] {
                accuracy.Update(NDArray::From({0.5f, 0}, {2}), scores);
              }),
              HasSubstr("0.5 is no class"));
  EXPECT_THAT(MessageOf([&] {
                accuracy.Update({Labels({0, 1})}, {scores, scores});
              }),
              HasSubstr("1 label arrays for 2"));
  EXPECT_EQ(accuracy.count(), 0);
}

TEST(TopKAccuracy, CountsLabelsAmongTheHighest) {
  const NDArray scores =
      NDArray::From({0.1f, 0.4f, 0.2f, 0.3f, 0.1f, 0.4f, 0.2f, 0.3f, 0.1f, 0.4f, 0.2f, 0.3f}, {3, 4});
  const NDArray labels = Labels({1, 3, 2});
  const double expected[] = {1.0 / 3, 2.0 / 3, 1, 1, 1};
  for (int64_t k = 1; k <= 5; ++k) {
    TopKAccuracy top(k);
    top.Update(labels, scores);
    EXPECT_DOUBLE_EQ(top.value(), expected[k - 1]) << k;
  }
  EXPECT_EQ(TopKAccuracy(5).name(), "top_5_accuracy");
  EXPECT_THAT(MessageOf([] { TopKAccuracy(0); }), HasSubstr("k = 0"));
}

TEST(LossMetric, AveragesAllValues) {
  Loss loss;
  loss.Update({}, {NDArray::From({1, 2, 3}, {3}), NDArray::From({6}, {1}, cpu(1))});
  EXPECT_DOUBLE_EQ(loss.value(), 3);
  EXPECT_EQ(loss.count(), 4);
}

// e to the sum of the losses over the number of labels that count.
TEST(PerplexityMetric, IsCountedOverTokens) {
  Perplexity perplexity(0), all;
  const NDArray labels = Labels({5, 3, 0, 0, 2, 1, 4, 0}), more = Labels({7, 7}, cpu(1));
  for (Perplexity* metric : {&perplexity, &all})
    metric->Update({labels, more}, {NDArray::From({3, 4.5}, {2}), NDArray::From({2.5}, {1}, cpu(1))});
  EXPECT_EQ(perplexity.count(), 7);
  EXPECT_NEAR(perplexity.value(), std::exp(10.0 / 7), 1e-12);
  EXPECT_NEAR(all.value(), std::exp(1.0), 1e-12);
  EXPECT_FALSE(perplexity.higher_is_better());
  EXPECT_TRUE(std::isnan(Perplexity().value()));
  EXPECT_THAT(MessageOf([&] {
                all.Update({labels}, {NDArray({1}), NDArray({1})});
              }),
              HasSubstr("1 arrays of labels and 2 of losses"));
}

NDArray Numbers(const std::vector<float>& values, const Shape& shape, Context context = cpu(0)) {
  return NDArray::From(std::span<const float>(values), shape, context);
}

// A program prints the value itself, and "-nan", as x86 makes it of 0 / 0, would say more than there is.
TEST(ErrorMetrics, AMeanThatIsNoNumberHasNoSign) {
  MeanSquaredError mse;
  EXPECT_FALSE(std::signbit(mse.value()));
  mse.Update(Numbers({-std::numeric_limits<float>::quiet_NaN()}, {1}), Numbers({1}, {1}));
  EXPECT_TRUE(std::isnan(mse.value()));
  EXPECT_FALSE(std::signbit(mse.value()));
}

TEST(ErrorMetrics, AreMeansOverSamplesOfMeansOverTheirNumbers) {
  MeanAbsoluteError mae;
  MeanSquaredError mse;
  RootMeanSquaredError rmse;
  EXPECT_TRUE(std::isnan(rmse.value()));
  for (MeanMetric* metric :
       {static_cast<MeanMetric*>(&mae), static_cast<MeanMetric*>(&mse), static_cast<MeanMetric*>(&rmse)}) {
    EXPECT_FALSE(metric->higher_is_better());
    // Errors 1, -3, then 2, 0 and, on another device, 5, 0.
    metric->Update({Numbers({0, 3, 1, 1}, {2, 2}), Numbers({-5, 2}, {1, 2}, cpu(1))},
                   {Numbers({1, 0, 3, 1}, {2, 2}), Numbers({0, 2}, {1, 2}, cpu(1))});
    EXPECT_EQ(metric->count(), 3);
  }
  EXPECT_DOUBLE_EQ(mae.value(), (2 + 1 + 2.5) / 3);
  EXPECT_DOUBLE_EQ(mse.value(), (5 + 2 + 12.5) / 3);
  EXPECT_DOUBLE_EQ(rmse.value(), std::sqrt((5 + 2 + 12.5) / 3));
  EXPECT_EQ(mae.name() + mse.name() + rmse.name(), "maemsermse");
  mae.Reset();
  mae.Update(Numbers({1, 2}, {2}), Numbers({2, 4}, {2, 1}));  // an axis of 1 more
  EXPECT_DOUBLE_EQ(mae.value(), 1.5);
  EXPECT_THAT(MessageOf([&] {
                mae.Update(Numbers({1, 2}, {2}), Numbers({1, 2}, {1, 2}));
              }),
              HasSubstr("mae: labels of shape [2] do not fit predictions of shape [1, 2]"));
  EXPECT_THAT(MessageOf([&] { mae.Update({Numbers({1}, {1})}, std::vector<NDArray>()); }),
              HasSubstr("1 label arrays for 0"));
}

TEST(BinaryAccuracyMetric, GoesByTheSignOfTheScore) {
  BinaryAccuracy accuracy;
  accuracy.Update(Numbers({1, 0, 0, 1}, {4}), Numbers({0.1f, -7, 3, 0}, {4, 1}));
  EXPECT_DOUBLE_EQ(accuracy.value(), 0.5);
  accuracy.Update(Numbers({1, 1, 0}, {1, 3}), Numbers({2, NAN, NAN}, {1, 3}));  // 2 of 3 labels
  EXPECT_DOUBLE_EQ(accuracy.value(), (2 + 2.0 / 3) / 5);
  EXPECT_TRUE(accuracy.higher_is_better());
  EXPECT_THAT(MessageOf([&] { accuracy.Update(Numbers({2}, {1}), Numbers({1}, {1})); }),
              HasSubstr("binary_accuracy: label 2 is neither 0 nor 1"));
}

TEST(CompositeMetric, FeedsAllAndKeepsTheOrder) {
  Composite composite;
  composite.Add(std::make_shared<Accuracy>()).Add(std::make_shared<TopKAccuracy>(2));
  composite.Update(Labels({0, 2}), NDArray::From({2, 1, 0, 2, 0, 1}, {2, 3}));
  const std::vector<Score> scores = composite.Get();
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(scores[0].name, "accuracy");
  EXPECT_DOUBLE_EQ(scores[0].value, 0.5);
  EXPECT_EQ(scores[1].name, "top_2_accuracy");
  EXPECT_DOUBLE_EQ(scores[1].value, 1);
  composite.Reset();
  EXPECT_TRUE(std::isnan(composite.Get()[1].value));
}

}  // namespace
}  // namespace sluice::metric
