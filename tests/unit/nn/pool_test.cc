// Tests pooling, forward and backward, against formulas in float64, and at extreme extents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/initializer.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using reference::Geometry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Pool>
void CheckPool(Tensor (*function)(const Tensor&, const Geometry&)) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Rng rng(seed);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.Below(n)); };
    const Window window{1 + below(3), 1 + below(3)};
    const Geometry g{
        window,
        {1 + below(3), 1 + below(3)},
        {below(static_cast<uint64_t>(window.height)), below(static_cast<uint64_t>(window.width))}};
    Pool pool(g.window, g.stride, g.padding);
    Check(
        pool, {1 + below(3), 1 + below(4), 3 + below(5), 3 + below(5)},
        [&](const auto& v) { return function(v[0], g); }, seed);
  }
  Pool halving(2);
  const Geometry g{2, 2, 0};
  Check(
      halving, {2, 20, 8, 8}, [&](const auto& v) { return function(v[0], g); }, 99);
  Check(
      halving, {1, 3, 5, 7}, [&](const auto& v) { return function(v[0], g); },
      100);  // odd sizes: the last row and column fall off
}

TEST(PoolTest, MaxMatchesTheReference) {
  CheckPool<MaxPool2D>(reference::MaxPool2D);
}

TEST(PoolTest, AvgMatchesTheReference) {
  CheckPool<AvgPool2D>(reference::AvgPool2D);
}

TEST(PoolTest, OfEqualValuesTheFirstGetsTheGradient) {
  MaxPool2D pool(2);
  NDArray x = NDArray::From({3, 3, 1, 3, 0, 0, 3, 3}, {1, 2, 2, 2});
  autograd::AttachGrad(x);
  NDArray y;
  {
    autograd::RecordScope record;
    y = pool(x);
  }
  autograd::Backward({y});
  EXPECT_THAT(autograd::Grad(x).ToVector(), ElementsAre(1, 0, 0, 0, 0, 0, 1, 0));
}

TEST(PoolTest, GlobalPoolsMatchTheReference) {
  for (const Shape& shape : {Shape{3, 2, 5, 4}, Shape{2, 3, 1, 1}, Shape{0, 2, 3, 3}, Shape{1, 5, 7, 1}}) {
    const Geometry g{{shape[2], shape[3]}, 1, 0};
    GlobalAvgPool2D average;
    Check(
        average, shape, [&](const auto& v) { return reference::AvgPool2D(v[0], g); }, 7);
    GlobalMaxPool2D highest;
    Check(
        highest, shape, [&](const auto& v) { return reference::MaxPool2D(v[0], g); }, 8);
  }
  EXPECT_THAT(
      MessageOf([] {
        GlobalAvgPool2D()(NDArray({2, 3}));
      }),
      HasSubstr("GlobalAvgPool2D expects input of shape [batch, channels, height, width] and got [2, 3]"));
}

TEST(PoolTest, RefusesHugeExtents) {
  for (const int64_t huge : {(int64_t{1} << 30) + 1, int64_t{1} << 62, INT64_MAX}) {
    EXPECT_THAT(MessageOf([&] { MaxPool2D(Window(huge, 2)); }), HasSubstr("MaxPool2D: the window is "));
    EXPECT_THAT(MessageOf([&] { AvgPool2D(2, huge); }), HasSubstr("AvgPool2D: the stride is "));
    EXPECT_THAT(MessageOf([&] { MaxPool2D(2, 2, huge); }),
                HasSubstr("; both numbers must be from 0 to 1073741824"));
    EXPECT_THAT(MessageOf([&] {
                  GlobalAvgPool2D()(NDArray({0, 1, std::min(huge, int64_t{1} << 62), 1}));
                }),
                HasSubstr("rows and columns"));
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  EXPECT_THAT(MessageOf([&] {
                AvgPool2D(kMost, 1, 5)(NDArray({1, 1, 9, 9}));
              }),
              HasSubstr("at least 1073741824x"));
}

// As many values as real images have, beside float64 sums of the same floats.
TEST(PoolTest, AveragesOfLargeImagesKeepTheirDigits) {
  for (const int64_t side : {64, 224, 1024}) {
    for (const bool constant : {true, false}) {
      for (const int64_t channels : {1, 3, 9}) {
        Rng rng(static_cast<uint64_t>(side));
        Tensor x = Random({1, channels, side, side}, &rng);
        for (double& value : x.values) value = constant ? 0.1f : static_cast<float>(value + 1);
        const Tensor expected = reference::AvgPool2D(x, {side, 1, 0});
        Conv2D conv(channels, 1, {.use_bias = false, .groups = channels});  // leaves its channels last
        conv.CollectParams().Initialize({cpu(0)}, std::make_shared<const One>());
        const NDArray image = reference::ToNDArray(x);
        for (const NDArray& in : {image, conv(image)}) {
          const std::vector<float> global = GlobalAvgPool2D()(in).ToVector(),
                                   window = AvgPool2D(side)(in).ToVector();
          for (size_t c = 0; c < global.size(); ++c) {
            EXPECT_NEAR(global[c], expected.values[c], 1e-6 * expected.values[c]) << side << " " << channels;
            EXPECT_EQ(window[c], global[c]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::nn
