// Tests SplitData, SplitAndLoad and SplitByWorkLoad: slices cover the batch in order, on the contexts they
// are meant for.
#include "sluice/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>

#include "base/rng.h"
#include "sluice/error.h"
#include "unit/nn/message_of.h"

namespace sluice {
namespace {

using nn::MessageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Sizes(int64_t batch, const std::vector<double>& loads) {
  std::vector<int64_t> sizes;
  for (const BatchSlice& slice : SplitByWorkLoad(batch, loads)) sizes.push_back(slice.size());
  return sizes;
}

TEST(SplitByWorkLoad, RoundsHalfToEvenAndGivesTheShortfallToTheLast) {
  EXPECT_THAT(Sizes(10, {1, 1, 1}), ElementsAre(3, 3, 4));
  EXPECT_THAT(Sizes(8, {1, 1, 1}), ElementsAre(3, 3, 2));
  EXPECT_THAT(Sizes(5, {1, 1}), ElementsAre(2, 3));
  EXPECT_THAT(Sizes(7, {1, 1}), ElementsAre(4, 3));  // 3.5 rounds to 4
  EXPECT_THAT(Sizes(128, {3, 1, 2}), ElementsAre(64, 21, 43));
  EXPECT_THAT(Sizes(64, {1}), ElementsAre(64));
  EXPECT_THAT(Sizes(64, {0.5, 1.5}), ElementsAre(16, 48));
}

TEST(SplitByWorkLoad, ClipsOvershoot) {
  // Python: round(1.5) == 2 four times is 8 of 6 samples, and the last slice is left with none.
  EXPECT_THAT(MessageOf([] {
                Sizes(6, {1, 1, 1, 1});
              }),
              HasSubstr("Too many slices. Some splits are empty."));
  EXPECT_THAT(Sizes(11, {1, 1, 1, 1}), ElementsAre(3, 3, 3, 2));
}

TEST(SplitByWorkLoad, RefusesEmptySlices) {
  EXPECT_THAT(MessageOf([] { Sizes(2, {1, 1, 1}); }), HasSubstr("Too many slices. Some splits are empty."));
  EXPECT_THAT(MessageOf([] { Sizes(10, {1, 1000}); }), HasSubstr("Too many slices. Some splits are empty."));
  EXPECT_THAT(MessageOf([] { Sizes(0, {1}); }), HasSubstr("Too many slices. Some splits are empty."));
}

TEST(SplitByWorkLoad, RefusesLoadsThatAreNoPositiveNumbers) {
  EXPECT_THAT(MessageOf([] { Sizes(8, {}); }), HasSubstr("empty"));
  EXPECT_THAT(MessageOf([] { Sizes(8, {1, 0}); }), HasSubstr("[1, 0] holds 0"));
  EXPECT_THAT(MessageOf([] { Sizes(8, {1, -2}); }), HasSubstr("holds -2"));
  EXPECT_THAT(MessageOf([] { Sizes(8, {1, std::nan("")}); }), HasSubstr("holds nan"));
  EXPECT_THAT(MessageOf([] { Sizes(8, {1e308, 1e308}); }), HasSubstr("too large"));
}

TEST(SplitByWorkLoad, CoversTheBatchInOrder) {
  Rng rng(7);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<double> loads(1 + rng.Below(6));
    for (double& load : loads) load = 1 + static_cast<double>(rng.Below(5));
    const auto batch = static_cast<int64_t>(128 + rng.Below(200));
    int64_t end = 0;
    for (const BatchSlice& slice : SplitByWorkLoad(batch, loads)) {
      EXPECT_EQ(slice.begin, end);
      EXPECT_GT(slice.size(), 0);
      end = slice.end;
    }
    EXPECT_EQ(end, batch);
  }
}

NDArray Rows(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n) * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return NDArray::From(std::span<const float>(values), {n, 2});
}

TEST(SplitData, EvenPartsAreViewsInOrder) {
  const NDArray data = Rows(6);
  const std::vector<NDArray> parts = SplitData(data, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_TRUE(parts[1].SharesStorage(data));
  EXPECT_THAT(parts[1].ToVector(), ElementsAre(4, 5, 6, 7));
}

TEST(SplitData, ARemainderIsAnErrorThatNamesShapeAxisAndNumber) {
  const std::string message = MessageOf([] { SplitData(Rows(5), 2); });
  EXPECT_THAT(message, HasSubstr("[5, 2] cannot be evenly split into 2 slices along axis 0"));
  EXPECT_THAT(message, HasSubstr("even_split=false"));
}

TEST(SplitData, UnevenGivesTheFirstSlicesOneMore) {
  std::vector<int64_t> sizes;
  for (const NDArray& part : SplitData(Rows(11), 4, false)) sizes.push_back(part.shape()[0]);
  EXPECT_THAT(sizes, ElementsAre(3, 3, 3, 2));
}

TEST(SplitData, RefusesMoreSlicesThanSamples) {
  EXPECT_THAT(MessageOf([] { SplitData(Rows(2), 3, false); }),
              HasSubstr("Too many slices for data with shape [2, 2]"));
  EXPECT_THAT(MessageOf([] { SplitData(Rows(2), 0); }), HasSubstr("into 0 slices"));
  EXPECT_THAT(MessageOf([] { SplitData(NDArray(Shape{}), 1); }), HasSubstr("no batch axis"));
}

TEST(SplitAndLoad, PutsEachPartOnItsContext) {
  const std::vector<NDArray> parts = SplitAndLoad(Rows(4), {cpu(0), cpu(1)});
  EXPECT_EQ(parts[0].context(), cpu(0));
  EXPECT_EQ(parts[1].context(), cpu(1));
  EXPECT_THAT(parts[1].ToVector(), ElementsAre(4, 5, 6, 7));
}

TEST(SplitAndLoad, FollowsTheWorkLoad) {
  const std::vector<double> loads = {3, 1};
  const std::vector<NDArray> parts = SplitAndLoad(Rows(8), {cpu(0), cpu(1)}, loads);
  EXPECT_EQ(parts[0].shape(), (Shape{6, 2}));
  EXPECT_THAT(parts[1].ToVector(), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(MessageOf([&] { SplitAndLoad(Rows(8), {cpu(0)}, loads); }),
              HasSubstr("2 entries for 1 contexts"));
}

}  // namespace
}  // namespace sluice
