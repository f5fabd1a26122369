// Tests the blocks that hold others: Sequential, Lambda, Concurrent and Residual, their gradients and their
// parameters' names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using reference::Geometry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SequentialTest, ChainsGradients) {
  Sequential net;
  net.Add("conv", Conv2D(3, 2)).Add("tanh", Activation::Tanh()).Add("pool", AvgPool2D(2)).Add("fc", Dense(2));
  const Geometry conv{2, 1, 0}, pool{2, 2, 0};
  Check(
      net, {2, 2, 5, 5},
      [&](const auto& v) {
        const Tensor c =
            reference::Map(reference::Conv2D(v[0], v[1], &v[2], conv), [](double x) { return std::tanh(x); });
        return reference::Dense(reference::AvgPool2D(c, pool), v[3], &v[4]);
      },
      5);
}

TEST(SequentialTest, NamesParametersAfterTheirLayers) {
  Sequential features;
  features.Add("conv1", Conv2D(4, 3)).Add(Activation::Relu());
  Sequential net;
  net.Add("features", std::move(features)).Add(Dense(10)).Add("out", Dense(2, {.use_bias = false}));
  EXPECT_THAT(net.CollectParams().names(), ElementsAre("features.conv1.weight", "features.conv1.bias",
                                                       "1.weight", "1.bias", "out.weight"));
  EXPECT_EQ(net[0].name(), "features");
  EXPECT_THROW(net.Add("out", Dense(3)), Error);
  EXPECT_THROW(net.Add("", Dense(3)), Error);
}

TEST(ConcurrentTest, JoinsAlongTheAxis) {
  for (const size_t axis : {size_t{1}, size_t{2}, size_t{3}}) {
    Concurrent net(axis);
    net.Add("one", Conv2D(2, 1)).Add(Activation::Tanh()).Add("two", Conv2D(2, 1));
    Check(
        net, {3, 2, 4, 3},
        [&](const auto& v) {
          const Geometry g{1, 1, 0};
          const Tensor parts[] = {reference::Conv2D(v[0], v[1], &v[2], g),
                                  reference::Map(v[0], [](double x) { return std::tanh(x); }),
                                  reference::Conv2D(v[0], v[3], &v[4], g)};
          Tensor y{v[0].shape.WithExtent(axis, 3 * v[0].shape[axis])};
          int64_t inner = 1;
          for (size_t i = axis; i < 4; ++i) inner *= v[0].shape[i];
          for (int64_t i = 0; i < y.shape.size(); ++i)
            y.at(i) = parts[i / inner % 3].at(i / (3 * inner) * inner + i % inner);
          return y;
        },
        7);
  }
}

TEST(ConcurrentTest, JoinsParts) {
  Concurrent net;
  net.Add("a", Dense(1)).Add("b", Dense(3));
  Check(
      net, {4, 2},
      [](const auto& v) {
        const Tensor a = reference::Dense(v[0], v[1], &v[2]), b = reference::Dense(v[0], v[3], &v[4]);
        Tensor y({4, 4});
        for (int64_t n = 0; n < 4; ++n) {
          y.at(4 * n) = a.at(n);
          for (int64_t i = 0; i < 3; ++i) y.at(4 * n + 1 + i) = b.at(3 * n + i);
        }
        return y;
      },
      8);
  EXPECT_EQ(net(NDArray({0, 2})).shape(), (Shape{0, 4}));
}

TEST(ConcurrentTest, NamesAndRefusals) {
  Concurrent branches;
  branches.Add("a", Conv2D(2, 1)).Add("b", Conv2D(2, 2));
  Sequential net;
  net.Add("mixed", std::move(branches));
  EXPECT_THAT(net.CollectParams().names(),
              ElementsAre("mixed.a.weight", "mixed.a.bias", "mixed.b.weight", "mixed.b.bias"));
  net.CollectParams().Initialize();
  EXPECT_THAT(
      MessageOf([&] {
        net(NDArray({1, 3, 5, 5}));
      }),
      HasSubstr(
          "mixed (Concurrent) expects its layers' outputs to differ at axis 1 only and got [1, 2, 5, 5] "
          "and [1, 2, 4, 4]"));
  EXPECT_THAT(MessageOf([] { Concurrent()(NDArray({1, 2})); }), HasSubstr("Concurrent has no layers"));
}

TEST(ResidualTest, AddsTheShortcut) {
  Residual same{Dense(3, {.in_units = 3})};
  Check(
      same, {4, 3},
      [](const auto& v) {
        Tensor y = reference::Dense(v[0], v[1], &v[2]);
        for (int64_t i = 0; i < y.shape.size(); ++i) y.at(i) += v[0].at(i);
        return y;
      },
      9);
  Residual other(Dense(2), Dense(2, {.use_bias = false}));
  Check(
      other, {4, 3},
      [](const auto& v) {
        Tensor y = reference::Dense(v[0], v[1], &v[2]);
        const Tensor shortcut = reference::Dense(v[0], v[3], nullptr);
        for (int64_t i = 0; i < y.shape.size(); ++i) y.at(i) += shortcut.at(i);
        return y;
      },
      10);
}

TEST(ResidualTest, NamesAndRefusals) {
  Sequential body;
  body.Add("fc", Dense(2));
  Sequential net;
  net.Add("block", Residual(std::move(body), Dense(3)));
  EXPECT_THAT(net.CollectParams().names(), ElementsAre("block.body.fc.weight", "block.body.fc.bias",
                                                       "block.shortcut.weight", "block.shortcut.bias"));
  net.CollectParams().Initialize();
  EXPECT_THAT(
      MessageOf([&] {
        net(NDArray({1, 4}));
      }),
      HasSubstr("block (Residual) expects body and shortcut of the same shape and got [1, 2] and [1, 3]"));
}

TEST(LambdaTest, IsRecorded) {
  Lambda square([](const NDArray& x) { return x * x + x; });
  Check(
      square, {3, 2}, [](const auto& v) { return reference::Map(v[0], [](double x) { return x * x + x; }); },
      11);
  EXPECT_THAT(MessageOf([] { Lambda(nullptr); }), HasSubstr("there is no function"));
}

}  // namespace
}  // namespace sluice::nn
