// Tests Dense and Flatten against formulas in float64, and what all layers share: decay, biases, errors that
// name the layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using reference::Geometry;
using reference::Random;
using reference::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DenseTest, MatchesTheReference) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Rng rng(seed);
    const auto batch = static_cast<int64_t>(1 + rng.Below(5)), in = static_cast<int64_t>(1 + rng.Below(20));
    Dense dense(static_cast<int64_t>(1 + rng.Below(12)), {.use_bias = seed % 4 != 0});
    Check(
        dense, {batch, in},
        [](const auto& v) { return reference::Dense(v[0], v[1], v.size() > 2 ? &v[2] : nullptr); }, seed);
  }
}

TEST(DenseTest, FlattensImages) {
  Dense dense(3);
  Check(
      dense, {2, 3, 2, 2}, [](const auto& v) { return reference::Dense(v[0], v[1], &v[2]); }, 1);
  EXPECT_EQ(dense.weight().shape(), (Shape{3, 12}));
}

TEST(DenseTest, WithoutFlattenMultipliesTheLastAxis) {
  Dense dense(3, {.flatten = false});
  Check(
      dense, {2, 4, 5},
      [](const auto& v) {
        reference::Tensor rows = v[0];
        rows.shape = {8, 5};
        reference::Tensor y = reference::Dense(rows, v[1], &v[2]);
        y.shape = {2, 4, 3};
        return y;
      },
      1);
  EXPECT_EQ(dense.weight().shape(), (Shape{3, 5}));
}

TEST(FlattenTest, KeepsChannelHeightWidthOrder) {
  // Behind a convolution, whose result may lie in another order in memory.
  Conv2D conv(2, 1, {.use_bias = false});
  conv.CollectParams().Initialize({cpu(0)});
  conv.weight().SetShape({2, 1, 1, 1});
  conv.weight().SetData(NDArray::From({1, 10}, {2, 1, 1, 1}));
  const NDArray y = Flatten()(conv(NDArray::From({1, 2, 3, 4}, {1, 1, 2, 2})));
  EXPECT_EQ(y.shape(), (Shape{1, 8}));
  EXPECT_THAT(y.ToVector(), ElementsAre(1, 2, 3, 4, 10, 20, 30, 40));
}

TEST(LayerTest, WeightDecayIsForWeightsOnly) {
  Dense dense(3);
  EXPECT_EQ(dense.weight().wd_mult(), 1);
  EXPECT_EQ(dense.bias()->wd_mult(), 0);
  EXPECT_EQ(dense.bias()->lr_mult(), 1);
}

TEST(LayerTest, BiasesStartAtZeroWhateverTheInitialiser) {
  Dense dense(3, {.in_units = 2});
  dense.CollectParams().Initialize({cpu(0)}, std::make_shared<Constant>(7));
  EXPECT_THAT(dense.weight().data(cpu(0)).ToVector(), ::testing::Each(7));
  EXPECT_THAT(dense.bias()->data(cpu(0)).ToVector(), ::testing::Each(0));
}

TEST(LayerTest, ShapeErrorsNameLayerExpectedAndGiven) {
  Sequential net;
  net.Add("conv1", Conv2D(4, 5, {.in_channels = 3}))
      .Add("pool1", MaxPool2D(2))
      .Add("fc1", Dense(10, {.in_units = 16}));
  net.CollectParams().Initialize({cpu(0)});
  EXPECT_THAT(
      MessageOf([&] {
        net(NDArray({2, 1, 8, 8}));
      }),
      HasSubstr("conv1 (Conv2D) expects input of shape [batch, 3, height, width] and got [2, 1, 8, 8]"));
  EXPECT_THAT(MessageOf([&] { net(NDArray({2, 192})); }), HasSubstr("got [2, 192]"));
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 3, 4, 8}));
              }),
              HasSubstr("at least 5x5 with its padding of 0x0 and got [2, 3, 4, 8]"));
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 3, 5, 5}));
              }),
              HasSubstr("pool1 (MaxPool2D) expects input of at least 2x2"));
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 3, 10, 10}));
              }),
              HasSubstr("fc1 (Dense) expects input of shape [batch, 16] and got [2, 4, 3, 3]"));
  EXPECT_THAT(MessageOf([&] { Flatten()(NDArray({3})); }),
              HasSubstr("Flatten expects input of shape [batch, ...] and got [3]"));
  EXPECT_EQ(net(NDArray({2, 3, 8, 8})).shape(), (Shape{2, 10}));  // and goes on working
}

TEST(LayerTest, RefusesImpossibleSizes) {
  EXPECT_THAT(MessageOf([] { Dense(0); }), HasSubstr("number of units is 0"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, {3, 0}); }), HasSubstr("the kernel is 3x0"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, 3, {.stride = 0}); }), HasSubstr("the stride is 0x0"));
  EXPECT_THAT(MessageOf([] { Conv2D(4, 3, {.padding = -1}); }), HasSubstr("the padding is -1x-1"));
  EXPECT_THAT(MessageOf([] { MaxPool2D(2, 2, 2); }),
              HasSubstr("MaxPool2D: the padding 2x2 must be smaller than the window 2x2"));
  EXPECT_THAT(MessageOf([] {
                AvgPool2D({2, 3}, 1, {0, 3});
              }),
              HasSubstr("AvgPool2D: the padding 0x3 must be smaller than the window 2x3"));
  EXPECT_THAT(MessageOf([] { MaxPool2D(Window{0, 2}); }), HasSubstr("MaxPool2D: the window is 0x2"));
  EXPECT_THAT(MessageOf([] { AvgPool2D(2, {2, 0}); }), HasSubstr("AvgPool2D: the stride is 2x0"));
  EXPECT_THAT(MessageOf([] { AvgPool2D(2, 2, {-1, 0}); }), HasSubstr("AvgPool2D: the padding is -1x0"));
}

}  // namespace
}  // namespace sluice::nn
