// Tests convolutions and transposed ones against formulas in float64, at their edges, and with options that
// cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using reference::Geometry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Any stride, padding, dilation and grouping, both ways.
class ConvTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  int64_t UpTo(uint64_t n) { return 1 + Below(n); }
  int64_t Below(uint64_t n) { return static_cast<int64_t>(rng_.Below(n)); }
  Rng rng_{GetParam()};
  const int64_t groups_ = UpTo(3);
  const Geometry g_{
      {UpTo(3), UpTo(3)}, {UpTo(3), UpTo(3)}, {Below(3), Below(3)}, {UpTo(3), UpTo(2)}, groups_};
  const bool use_bias_ = GetParam() % 4 != 0;
};
INSTANTIATE_TEST_SUITE_P(Seeds, ConvTest, ::testing::Range<uint64_t>(0, 40));

TEST_P(ConvTest, Conv2DMatchesTheReference) {
  Conv2D conv(groups_ * UpTo(3), g_.window,
              {.stride = g_.stride,
               .padding = g_.padding,
               .use_bias = use_bias_,
               .dilation = g_.dilation,
               .groups = groups_});
  Check(
      conv, {UpTo(3), groups_ * UpTo(3), g_.full_height() + Below(4), g_.full_width() + Below(4)},
      [&](const auto& v) { return reference::Conv2D(v[0], v[1], v.size() > 2 ? &v[2] : nullptr, g_); },
      GetParam());
}

TEST_P(ConvTest, Conv2DTransposeMatchesTheReference) {
  const Window more = {Below(static_cast<uint64_t>(g_.stride.height)),
                       Below(static_cast<uint64_t>(g_.stride.width))};
  Conv2DTranspose conv(groups_ * UpTo(3), g_.window,
                       {.stride = g_.stride,
                        .padding = g_.padding,
                        .output_padding = more,
                        .use_bias = use_bias_,
                        .dilation = g_.dilation,
                        .groups = groups_});
  // Large enough that something is left after the padding is cut off.
  Check(
      conv, {UpTo(3), groups_ * UpTo(3), 5 + Below(3), 5 + Below(3)},
      [&](const auto& v) {
        return reference::Conv2DTranspose(v[0], v[1], v.size() > 2 ? &v[2] : nullptr, g_, more);
      },
      GetParam());
}

TEST(ConvEdgeTest, DepthwiseSeesItsOwnChannelOnly) {
  Conv2D conv(2, 1, {.use_bias = false, .in_channels = 2, .groups = 2});
  conv.CollectParams().Initialize();
  conv.weight().SetData(NDArray::From({10, 100}, {2, 1, 1, 1}));
  EXPECT_THAT(conv(NDArray::From({1, 2, 3, 4}, {1, 2, 1, 2})).ToVector(), ElementsAre(10, 20, 300, 400));
}

TEST(ConvEdgeTest, NoRowsAndSinglePixels) {
  for (const Shape& shape : {Shape{0, 2, 4, 5}, Shape{1, 2, 1, 1}}) {
    Conv2D conv(4, 3, {.padding = 1, .groups = 2});
    const Geometry g{3, 1, 1, 1, 2};
    Check(
        conv, shape, [&](const auto& v) { return reference::Conv2D(v[0], v[1], &v[2], g); }, 1);
    Conv2DTranspose transpose(4, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
    const Geometry t{3, 2, 1, 1, 2};
    Check(
        transpose, shape, [&](const auto& v) { return reference::Conv2DTranspose(v[0], v[1], &v[2], t, 1); },
        2);
  }
}

TEST(ConvEdgeTest, ShapeErrorsNameLayerExpectedAndGiven) {
  Sequential net;
  net.Add("conv", Conv2D(4, 3, {.dilation = 2, .groups = 2}))
      .Add("up", Conv2DTranspose(6, 2, {.padding = 2, .groups = 3}));
  net.CollectParams().Initialize();
  EXPECT_THAT(
      MessageOf([&] {
        net(NDArray({1, 3, 9, 9}));
      }),
      HasSubstr("conv (Conv2D) expects input of shape [batch, channels, height, width] with channels a "
                "multiple of 2, its groups, and got [1, 3, 9, 9]"));
  EXPECT_THAT(MessageOf([&] { net(NDArray({1, 2, 4, 9})); }), HasSubstr("at least 5x5"));
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({1, 2, 9, 9}));
              }),
              HasSubstr("up (Conv2DTranspose) expects input of shape [batch, channels, height, width] with"));
  EXPECT_EQ(net.CollectParams()["conv.weight"].shape(), (Shape{4, 1, 3, 3}));
  Conv2DTranspose cut(1, 2, {.padding = 2, .in_channels = 3});
  cut.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] {
                cut(NDArray({1, 3, 3, 4}));
              }),
              HasSubstr("padding of 2x2 is cut off and got [1, 3, 3, 4]"));
  EXPECT_THAT(MessageOf([&] {
                cut(NDArray({1, 2, 9, 9}));
              }),
              HasSubstr("[batch, 3, height, width] and got [1, 2, 9, 9]"));
}

TEST(ConvEdgeTest, RefusesImpossibleOptions) {
  EXPECT_THAT(MessageOf([] { Conv2D(3, 1, {.groups = 2}); }),
              HasSubstr("3 channels cannot be cut into 2 equal groups"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, 1, {.in_channels = 3, .groups = 2}); }),
              HasSubstr("3 channels cannot be"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, 1, {.groups = 0}); }), HasSubstr("number of groups is 0"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, 1, {.dilation = 0}); }), HasSubstr("Conv2D: the dilation is 0x0"));
  EXPECT_THAT(MessageOf([] { Conv2DTranspose(4, 3, {.stride = 2, .output_padding = 2}); }),
              HasSubstr("the output padding 2x2 must be smaller than the stride 2x2"));
  EXPECT_THAT(MessageOf([] { Conv2DTranspose(4, 3, {.output_padding = -1}); }),
              HasSubstr("output padding is -1x-1"));
}

// Beyond any image, where sums and products of extents would overflow.
TEST(ConvEdgeTest, RefusesHugeExtents) {
  const std::string range = "to 1073741824";
  for (const int64_t huge : {(int64_t{1} << 30) + 1, int64_t{1} << 62, INT64_MAX}) {
    for (const auto& [what, make] : std::vector<std::pair<std::string, std::function<void()>>>{
             {"Conv2D: the kernel",
              [huge] {
                Conv2D(1, {1, huge});
              }},
             {"Conv2D: the stride",
              [huge] {
                Conv2D(1, 1, {.stride = {huge, 1}});
              }},
             {"Conv2D: the padding", [huge] { Conv2D(1, 1, {.padding = huge}); }},
             {"Conv2D: the dilation", [huge] { Conv2D(1, 3, {.dilation = huge}); }},
             {"Conv2DTranspose: the kernel",
              [huge] {
                Conv2DTranspose(1, {huge, 1});
              }},
             {"Conv2DTranspose: the stride", [huge] { Conv2DTranspose(1, 1, {.stride = huge}); }},
             {"Conv2DTranspose: the padding",
              [huge] {
                Conv2DTranspose(1, 1, {.padding = {1, huge}});
              }},
             {"Conv2DTranspose: the dilation", [huge] { Conv2DTranspose(1, 3, {.dilation = huge}); }},
             {"Conv2DTranspose: the output padding",
              [huge] { Conv2DTranspose(1, 1, {.output_padding = huge}); }}})
      EXPECT_THAT(MessageOf(make), AllOf(HasSubstr(what + " is "), HasSubstr(range)));
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  Conv2D wide(1, 3, {.dilation = kMost});
  wide.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] { wide(NDArray({1, 1, 9, 9})); }), HasSubstr("at least 2147483649x2147483649"));
  EXPECT_THAT(MessageOf([&] {
                wide(NDArray({0, 1, int64_t{1} << 40, 9}));
              }),
              HasSubstr("at most 1073741824 rows"));
  Conv2DTranspose up(1, 1, {.stride = kMost});
  up.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] {
                up(NDArray({0, 1, int64_t{1} << 40, 1}));
              }),
              HasSubstr("at most 1073741824 rows"));
  Conv2D far(1, 1, {.stride = kMost});
  far.CollectParams().Initialize();
  EXPECT_EQ(far(NDArray({1, 1, 9, 9})).shape(), (Shape{1, 1, 1, 1}));
}

}  // namespace
}  // namespace sluice::nn
