// A NaN stays one in every layer that has a maximum, a bound or a choice in it: a broken network shows it.
// Gradients are PyTorch 1.13's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sluice/autograd.h"
#include "sluice/initializer.h"
#include "sluice/loss.h"
#include "sluice/nn.h"

namespace sluice::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;
using ::testing::NanSensitiveFloatEq;
using ::testing::Pointwise;

struct NanOutcome {
  std::vector<float> out, grad;
};

template <typename Forward>
NanOutcome Recorded(const NDArray& values, Forward&& forward) {
  NDArray x = values.Copy(), y;
  autograd::AttachGrad(x);
  {
    const autograd::RecordScope record;
    y = forward(x);
  }
  autograd::Backward({y});
  return {y.ToVector(), autograd::Grad(x).ToVector()};
}

// A channel as it is, with the channels last in memory.
Conv2D Identity(int64_t channels = 1) {
  return Conv2D(channels, 1, {.use_bias = false, .groups = channels});
}

// All weights are 1.
void Initialize(Layer& net) {
  net.CollectParams().Initialize({cpu(0)}, std::make_shared<const One>());
}

// Many times the same pixels, so that loops in vectors have some and the rest after them too.
NDArray Repeated(const std::vector<float>& values, int64_t times, const Shape& shape) {
  std::vector<float> all;
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), values.begin(), values.end());
  return NDArray::From(std::span<const float>(all), shape);
}

class NanActivationTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(NanActivationTest, PassesAnActivation) {
  Activation activation(GetParam());
  const NDArray x = Repeated({NAN, -1, 2}, 7, {21});
  const std::vector<float> y = activation(x).ToVector();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 3 == 0) << i;
}

TEST_P(NanActivationTest, PassesAnActivationBehindAConvolution) {
  for (const int64_t channels : {1, 6, 16, 20}) {
    Sequential net;
    net.Add(Conv2D(channels, 1)).Add(Activation(GetParam()));
    net.CollectParams().Initialize({cpu(0)});
    const NDArray x = Repeated({1, NAN, -1, 2}, 1, {1, 1, 2, 2});
    const std::vector<float> y = net(x).ToVector();
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 4 == 1) << i;
  }
}

// One by one the layers do the same, forward and backward.
TEST_P(NanActivationTest, IsTheSameForNeighbours) {
  for (const bool pool : {false, true}) {
    Sequential net;
    net.Add(Identity()).Add(Activation(GetParam()));
    if (pool) net.Add(MaxPool2D(2));
    Initialize(net);
    const NDArray x = Repeated({NAN, 1, 2, -1, 3, -2, NAN, 4}, 2, {1, 1, 4, 4});
    const NanOutcome together = Recorded(x, [&](const NDArray& in) { return net(in); });
    const NanOutcome apart = Recorded(x, [&](NDArray y) {
      for (size_t i = 0; i < net.size(); ++i) y = net[i](y);
      return y;
    });
    EXPECT_THAT(together.out, Pointwise(NanSensitiveFloatEq(), apart.out));
    EXPECT_THAT(together.grad, Pointwise(NanSensitiveFloatEq(), apart.grad));
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, NanActivationTest, ::testing::ValuesIn(Activation::Names()),
                         [](const auto& info) { return std::string(info.param); });

TEST(NanTest, PassesItsGradientThroughARectifier) {
  const NDArray x = NDArray::From({NAN, -1, 0, 2}, {1, 1, 2, 2});
  const auto expect = [&](Sequential net) {
    const NanOutcome outcome = Recorded(x, [&](const NDArray& in) { return net(in); });
    EXPECT_THAT(outcome.out, ElementsAre(IsNan(), 0, 0, 2));
    EXPECT_THAT(outcome.grad, ElementsAre(1, 0, 0, 1));
  };
  Sequential alone, behind, with_slope;
  alone.Add(Activation::Relu());
  expect(std::move(alone));
  behind.Add(Identity()).Add(Activation::Relu());
  Initialize(behind);
  expect(std::move(behind));
  with_slope.Add(Identity()).Add(Activation::LeakyRelu(0));
  Initialize(with_slope);
  const NanOutcome outcome = Recorded(x, [&](const NDArray& in) { return with_slope(in); });
  EXPECT_THAT(outcome.out, ElementsAre(IsNan(), 0, 0, 2));
  EXPECT_THAT(outcome.grad, ElementsAre(0, 0, 0, 1));
}

// The running statistics: those of a batch with a NaN would be NaN.
TEST(NanTest, PassesARectifierBehindBatchNormalisation) {
  for (const bool residual : {false, true}) {
    for (const bool fused : {false, true}) {
      Sequential body, net;
      body.Add(BatchNorm({.epsilon = 1e-30}));
      if (residual) {
        net.Add(Residual(std::move(body)));
      } else {
        net.Add(BatchNorm({.epsilon = 1e-30}));
      }
      if (fused) net.Add(Activation::Relu());
      net.CollectParams().Initialize({cpu(0)});
      const NDArray x = NDArray::From({-1, NAN, 2, 3, 4, -5}, {3, 2});
      const NDArray y = fused ? net(x) : Activation::Relu()(net(x));
      const float k = residual ? 2 : 1;
      EXPECT_THAT(y.ToVector(), ElementsAre(0, IsNan(), 2 * k, 3 * k, 4 * k, 0)) << residual << fused;
    }
  }
}

// Recorded, a whole channel of the batch is NaN, and its gradient; the other is not touched.
TEST(NanTest, SpoilsItsChannelOfABatchOnly) {
  Sequential net;
  net.Add(BatchNorm()).Add(Activation::Relu());
  net.CollectParams().Initialize({cpu(0)});
  const NDArray x = NDArray::From({-1, NAN, 2, 3, 4, -5}, {3, 2});
  const NanOutcome outcome = Recorded(x, [&](const NDArray& in) { return net(in); });
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(std::isnan(outcome.out[i]), i % 2 == 1) << i;
    EXPECT_EQ(std::isnan(outcome.grad[i]), i % 2 == 1) << i;
  }
}

TEST(NanTest, ReachesTheShiftBehindIt) {
  for (const bool fused : {false, true}) {
    Sequential net;
    net.Add(BatchNorm({.use_global_stats = true})).Add(Activation::Relu());
    net.CollectParams().Initialize({cpu(0)});
    const NDArray x = NDArray::From({NAN, -1, 2, 3}, {4, 1});
    Recorded(x, [&](const NDArray& in) { return fused ? net(in) : net[1](net[0](in)); });
    EXPECT_THAT(net.CollectParams().at(1)->grad(cpu(0)).ToVector(), ElementsAre(3)) << fused;
  }
}

// The last NaN of a window is its maximum, as in PyTorch; without one the first of equals.
TEST(NanTest, PassesMaxPooling) {
  // Infinities cancel, and are no NaN.
  EXPECT_THAT(MaxPool2D(2)(NDArray::From({1, -INFINITY, INFINITY, 0}, {1, 1, 2, 2})).ToVector(),
              ElementsAre(INFINITY));
  const std::vector<float> plane = {NAN, 0, 0,   0,  //
                                    0,   0, NAN, 9,  //
                                    1,   2, NAN, 3,  //
                                    2,   2, NAN, 5};
  const std::vector<float> grad = {1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  const std::vector<float> whole = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
  const auto times = [](const std::vector<float>& values, int64_t n) {
    return Repeated(values, n, {n * static_cast<int64_t>(values.size())}).ToVector();
  };
  MaxPool2D pool(2);
  GlobalMaxPool2D global;
  for (const int64_t channels : {1, 6, 16, 20}) {
    const NDArray x = Repeated(plane, channels, {1, channels, 4, 4});
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(::testing::Message() << channels << channels_last);
      Conv2D conv = Identity(channels);
      Initialize(conv);
      const auto run = [&](Layer& layer) {
        return Recorded(x, [&](const NDArray& in) { return layer(channels_last ? conv(in) : in); });
      };
      const NanOutcome windows = run(pool), all = run(global);
      EXPECT_THAT(windows.out, Pointwise(NanSensitiveFloatEq(), times({NAN, NAN, 2, NAN}, channels)));
      EXPECT_THAT(windows.grad, ::testing::ElementsAreArray(times(grad, channels)));
      EXPECT_THAT(all.out, Each(IsNan()));
      EXPECT_THAT(all.grad, ::testing::ElementsAreArray(times(whole, channels)));
    }
  }
}

TEST(NanTest, PassesAveragePooling) {
  const NDArray x = NDArray::From({NAN, 0, 1, 1, 0, 0, 1, 1}, {1, 1, 2, 4});
  Conv2D conv = Identity();
  Initialize(conv);
  EXPECT_THAT(AvgPool2D(2)(x).ToVector(), ElementsAre(IsNan(), 1));
  EXPECT_THAT(AvgPool2D(2)(conv(x)).ToVector(), ElementsAre(IsNan(), 1));
}

TEST(NanTest, PassesTheLosses) {
  const L2Loss l2;
  const L1Loss l1;
  const HuberLoss huber;
  const SigmoidBinaryCrossEntropyLoss logistic;
  const KLDivLoss divergence, with_softmax(false);
  const SoftmaxCrossEntropyLoss cross_entropy, smoothed({.label_smoothing = 0.1f});
  constexpr int64_t kColumns = 35;
  for (const int64_t place : {0, 5, 15, 16, 34}) {
    std::vector<float> values(2 * kColumns, 0.5f), ones(2 * kColumns, 1.0f / kColumns);
    values[static_cast<size_t>(place)] = NAN;
    const NDArray broken = NDArray::From(std::span<const float>(values), {2, kColumns}),
                  whole = NDArray::From(std::span<const float>(ones), {2, kColumns});
    const auto expect = [&](const NDArray& losses) {
      EXPECT_THAT(losses.ToVector(), ElementsAre(IsNan(), ::testing::Not(IsNan()))) << place;
    };
    for (const Loss* loss : std::initializer_list<const Loss*>{&l2, &l1, &huber, &logistic, &divergence,
                                                               &with_softmax, &cross_entropy, &smoothed}) {
      expect((*loss)(broken, whole));
      expect((*loss)(whole, broken));
    }
    expect(cross_entropy(broken, NDArray::From({3, 4}, {2})));
    expect(smoothed(broken, NDArray::From({3, 4}, {2})));
  }
}

TEST(NanTest, PassesTheLossesGradients) {
  const NDArray x = NDArray::From({NAN, 1, 2, 3}, {2, 2}), label = NDArray::From({1, 0, 2, 1}, {2, 2}),
                classes = NDArray::From({1, 0}, {2});
  const L2Loss l2;
  const HuberLoss huber;
  const SigmoidBinaryCrossEntropyLoss logistic;
  for (const Loss* loss : std::initializer_list<const Loss*>{&l2, &huber, &logistic}) {
    const NanOutcome outcome = Recorded(x, [&](const NDArray& in) { return (*loss)(in, label); });
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(outcome.grad[i]), i == 0) << i;
  }
  const NanOutcome outcome =
      Recorded(x, [&](const NDArray& in) { return SoftmaxCrossEntropyLoss()(in, classes); });
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(outcome.grad[i]), i < 2) << i;
}

}  // namespace
}  // namespace sluice::nn
