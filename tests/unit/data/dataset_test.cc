// Tests the datasets in memory and the views on them: Take, Select, Concat and InMemory.
#include "sluice/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const ArrayDataset> Array(std::vector<float> samples, std::vector<int32_t> labels) {
  return std::make_shared<ArrayDataset>(Shape{2}, std::move(samples), std::move(labels), 4);
}

struct Sample {
  std::vector<float> values;
  int32_t label;
  bool operator==(const Sample&) const = default;
};
Sample At(const Dataset& dataset, int64_t index, int64_t epoch = 0) {
  Sample sample{std::vector<float>(static_cast<size_t>(dataset.sample_shape().size())), 0};
  sample.label = dataset.GetInEpoch(epoch, index, sample.values);
  EXPECT_EQ(dataset.Label(index), sample.label);
  return sample;
}

TEST(ArrayDatasetTest, HoldsSamplesOfAnyShape) {
  const ArrayDataset flat(Shape{2}, {1, 2, 3, 4}, {1, 0});
  EXPECT_EQ(flat.num_classes(), 2);
  EXPECT_EQ(At(flat, 1), (Sample{{3, 4}, 0}));
  const ArrayDataset scalars(Shape{}, {16777216, -1}, {0, 6}, 9);  // a token id of 2^24 is exact
  EXPECT_EQ(scalars.num_classes(), 9);
  EXPECT_EQ(At(scalars, 0), (Sample{{16777216}, 0}));
  EXPECT_EQ(ArrayDataset(Shape{2, 0, 3}, {}, {0, 1}).size(), 2);
  EXPECT_EQ(ArrayDataset(Shape{2}, {}, {}).size(), 0);
}

TEST(ArrayDatasetTest, RefusesWhatDoesNotFit) {
  const auto make = [](Shape shape, std::vector<float> samples, std::vector<int32_t> labels,
                       int64_t classes) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ArrayDataset(shape, samples, labels, classes); });
  };
  EXPECT_THAT(make({2}, {1, 2, 3}, {0}, 0), HasSubstr("3 values and 1 labels"));
  EXPECT_THAT(make({2, 0}, {1}, {0}, 0), HasSubstr("1 values and 1 labels"));
  EXPECT_THAT(make({1}, {1, 2}, {0, 2}, 2), HasSubstr("label 1 is 2; expected 0 to 1"));
  EXPECT_THAT(make({1}, {1, 2}, {0, -1}, 0), HasSubstr("ArrayDataset: label 1 is -1; expected at least 0"));
  EXPECT_THAT(make({1}, {1}, {-1}, 0), HasSubstr("label 0 is -1; expected at least 0"));
  EXPECT_THAT(make({1}, {1}, {0}, -2), HasSubstr("ArrayDataset: num_classes is -2; expected at least 1"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [] {
                        ImageDataset({1, 1, 1}, {0}, {0}, 0);
                      }),
              HasSubstr("ImageDataset: num_classes is 0; expected at least 1"));
}

TEST(DatasetTest, TheLabelAloneIsTheSamples) {
  class Bare final : public Dataset {
    int64_t size() const override { return 3; }
    const Shape& sample_shape() const override { return shape_; }
    int64_t num_classes() const override { return 3; }
    int32_t Get(int64_t index, std::span<float> sample) const override {
      std::fill(sample.begin(), sample.end(), 1.0f);
      return static_cast<int32_t>(index);
    }
    Shape shape_{2, 2};
  };
  const std::shared_ptr<const Dataset> bare = std::make_shared<Bare>();
  EXPECT_EQ(bare->Label(2), 2);
  EXPECT_EQ(At(*bare, 1, 5), (Sample{{1, 1, 1, 1}, 1}));
}

TEST(Views, TakeAndSelectAreViews) {
  const auto data = Array({0, 1, 10, 11, 20, 21}, {0, 1, 2});
  const auto first = Take(data, 2);
  EXPECT_EQ(first->size(), 2);
  EXPECT_EQ(first->num_classes(), 4);
  EXPECT_EQ(At(*first, 1), (Sample{{10, 11}, 1}));
  const auto chosen = Select(data, {2, 0, 2});
  EXPECT_EQ(chosen->size(), 3);
  EXPECT_EQ(At(*chosen, 0), (Sample{{20, 21}, 2}));
  EXPECT_EQ(At(*chosen, 1), (Sample{{0, 1}, 0}));
  EXPECT_EQ(At(*Take(chosen, 1), 0), (Sample{{20, 21}, 2}));
  EXPECT_EQ(Take(data, 3)->size(), 3);
  EXPECT_EQ(Take(data, 4)->size(), 3);  // all, as Gluon's take
  EXPECT_EQ(At(*Take(data, INT64_MAX), 2), At(*data, 2));
  EXPECT_EQ(Select(data, {})->size(), 0);
}

TEST(Views, ConcatLaysThemEndToEnd) {
  const auto whole = Concat({Array({1, 2}, {3}), Array({}, {}), Array({3, 4, 5, 6}, {1, 2})});
  EXPECT_EQ(whole->size(), 3);
  EXPECT_EQ(At(*whole, 0), (Sample{{1, 2}, 3}));
  EXPECT_EQ(At(*whole, 1), (Sample{{3, 4}, 1}));
  EXPECT_EQ(At(*whole, 2), (Sample{{5, 6}, 2}));
}

TEST(Views, InMemoryIsTheSame) {
  const auto view = Select(Array({0, 1, 10, 11}, {0, 1}), {1, 1, 0});
  const auto kept = InMemory(*view);
  EXPECT_EQ(kept->num_classes(), 4);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(At(*kept, i), At(*view, i));
}

TEST(Views, WhatIsOutOfRangeIsRefused) {
  const auto data = Array({0, 1, 10, 11}, {0, 1});
  const auto refused = [](const auto& call) { return ErrorOf(ErrorCode::kInvalidArgument, call); };
  EXPECT_THAT(refused([&] { Take(data, 0); }), HasSubstr("0 samples are asked for; expected at least 1"));
  EXPECT_THAT(refused([&] { Take(data, -3); }), HasSubstr("-3 samples are asked for"));
  EXPECT_THAT(refused([&] { Select(data, {0, 2}); }), HasSubstr("index 1 is 2; expected 0 to 1"));
  EXPECT_THAT(refused([&] { Select(data, {-1}); }), HasSubstr("index 0 is -1"));
  EXPECT_THAT(refused([&] { Concat({}); }), HasSubstr("no dataset"));
  EXPECT_THAT(refused([&] { Concat({data, nullptr}); }), HasSubstr("no dataset"));
  EXPECT_THAT(refused([&] {
                Concat({data, std::make_shared<ArrayDataset>(Shape{3}, std::vector<float>{1, 2, 3},
                                                             std::vector<int32_t>{0}, 4)});
              }),
              HasSubstr("dataset 1 has samples of [3]"));
  EXPECT_THAT(refused([&] { Take(nullptr, 1); }), HasSubstr("Take: no dataset"));
}

}  // namespace
}  // namespace sluice
