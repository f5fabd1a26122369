// Labels that are arrays of numbers, from the data set to the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "sluice/data.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::vector<float> LabelAt(const Dataset& dataset, int64_t index) {
  std::vector<float> label(static_cast<size_t>(dataset.label_shape()->size()));
  dataset.GetLabel(index, label);
  return label;
}

TEST(ArrayLabels, OfADataset) {
  const ArrayDataset pairs(Shape{1}, {1, 2, 3}, Shape{2}, {10, 11, 20, 21, 30, 31});
  EXPECT_EQ(pairs.size(), 3);
  EXPECT_EQ(pairs.num_classes(), 0);
  EXPECT_EQ(pairs.label_shape(), (Shape{2}));
  EXPECT_EQ(pairs.Label(2), 0);
  EXPECT_EQ(LabelAt(pairs, 2), (std::vector<float>{30, 31}));
  const ArrayDataset numbers(Shape{1}, {1, 2}, Shape{}, {5, 6});
  EXPECT_EQ(numbers.label_shape(), Shape{});
  EXPECT_EQ(LabelAt(numbers, 1), (std::vector<float>{6}));
  EXPECT_EQ(ArrayDataset(Shape{1}, {}, Shape{}, {}).size(), 0);
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidArgument,
              [] {
                ArrayDataset(Shape{1}, {1, 2}, Shape{2}, {5, 6});
              }),
      HasSubstr("2 values and 2 of labels do not make samples of shape [1] with labels of shape [2]"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { ArrayDataset(Shape{1}, {1}, Shape{0}, {}); }),
              HasSubstr("labels of shape [0]"));
  const ArrayDataset classes(Shape{1}, {1}, std::vector<int32_t>{0});
  float label = 0;
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { classes.GetLabel(0, std::span(&label, 1)); }),
              HasSubstr("the data set's labels are classes"));
  EXPECT_EQ(classes.label_shape(), std::nullopt);
}

TEST(ArrayLabels, GoWithTheirSamplesThroughViews) {
  const auto all = std::make_shared<ArrayDataset>(Shape{1}, std::vector<float>{1, 2, 3}, Shape{2},
                                                  std::vector<float>{10, 11, 20, 21, 30, 31});
  const std::vector<float> last{30, 31};
  for (const auto& [view, index] :
       {std::pair<std::shared_ptr<const Dataset>, int64_t>(Select(all, {2, 0}), 0),
        {Take(all, 3), 2},
        {Concat({Select(all, {0}), all}), 3},
        {Transformed(all, transforms::Scale(1)), 2},
        {InMemory(*Select(all, {2})), 0}}) {
    EXPECT_EQ(view->label_shape(), (Shape{2}));
    EXPECT_EQ(LabelAt(*view, index), last);
    float sample = 0;
    view->Get(index, std::span(&sample, 1));
    EXPECT_EQ(sample, 3);
  }
  const auto other =
      std::make_shared<ArrayDataset>(Shape{1}, std::vector<float>{1}, Shape{1}, std::vector<float>{1});
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidArgument,
              [&] {
                Concat({all, other});
              }),
      HasSubstr("dataset 1 has samples of [1] with labels of [1], dataset 0 of [1] with labels of [2]"));
}

// Sample i is {i}, its label {i, -i}.
std::shared_ptr<const ArrayDataset> WithArrays(int64_t size) {
  std::vector<float> samples, labels;
  for (int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<float>(i);
    samples.push_back(value);
    labels.insert(labels.end(), {value, -value});
  }
  return std::make_shared<ArrayDataset>(Shape{1}, std::move(samples), Shape{2}, std::move(labels));
}

TEST(ArrayLabels, ComeAsOneWithEachBatch) {
  DataLoader loader(
      WithArrays(21),
      {.batch_size = 8, .seed = 3, .last_batch = LastBatch::kRollover, .num_epochs = 3, .num_threads = 2});
  int64_t seen = 0;
  for (std::optional<Batch> batch; (batch = loader.Next()); loader.Reuse(*std::move(batch))) {
    EXPECT_EQ(batch->size(), 8);
    EXPECT_TRUE(batch->labels.empty());
    EXPECT_EQ(batch->label_shape, (Shape{8, 2}));
    ASSERT_EQ(batch->label_values.size(), 16u);
    for (size_t i = 0; i < 8; ++i) {
      const auto index = static_cast<float>(batch->indices[i]);
      EXPECT_EQ(batch->samples[i], index);
      EXPECT_EQ(batch->label_values[2 * i], index);
      EXPECT_EQ(batch->label_values[2 * i + 1], -index);
    }
    seen += batch->size();
  }
  EXPECT_EQ(seen, 56);  // there are 63
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { DataLoader(WithArrays(4), {.class_weights = {1}}); }),
              ::testing::HasSubstr("1 class_weights, but the labels are arrays, [2], and no classes"));
}

}  // namespace
}  // namespace sluice
