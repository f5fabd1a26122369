// Neighbours that a Sequential runs in one pass, beside the same layers one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.h"
#include "unit/nn/check_layer.h"

namespace sluice::nn {
namespace {

struct RunOutcome {
  NDArray out;
  std::vector<NDArray> grads;  // the input's, then the parameters'
};

template <typename Forward>
RunOutcome Run(const ParameterDict& parameters, const NDArray& values, const NDArray& head,
               Forward&& forward) {
  NDArray x = values.Copy();
  autograd::AttachGrad(x);
  RunOutcome outcome;
  {
    const autograd::RecordScope record;
    outcome.out = forward(x);
  }
  autograd::Backward({outcome.out}, {head});
  outcome.grads = {autograd::Grad(x).Copy()};
  for (const auto& parameter : parameters)
    if (parameter->grad_req() != autograd::GradReq::kNull)
      outcome.grads.push_back(parameter->grad(cpu(0)).Copy());
  return outcome;
}

// The network of these layers does what they do one after the other, for numbers around `center`.
void ExpectSameAsApart(Sequential net, const Shape& x_shape, float center = 0) {
  Rng rng(1);
  const ParameterDict parameters = net.CollectParams();
  parameters.Initialize({cpu(0)});
  const NDArray x = reference::ToNDArray(Random(x_shape, &rng)) + center;
  const NDArray head = reference::ToNDArray(Random(net(x).shape(), &rng));
  const RunOutcome together = Run(parameters, x, head, [&](const NDArray& in) { return net(in); });
  const RunOutcome apart = Run(parameters, x, head, [&](NDArray y) {
    for (size_t i = 0; i < net.size(); ++i) y = net[i](y);
    return y;
  });
  const auto expect_near = [](const NDArray& a, const NDArray& b) {
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_THAT(a.ToVector(), ::testing::Pointwise(::testing::FloatNear(1e-5f), b.ToVector()));
  };
  expect_near(together.out, apart.out);
  ASSERT_EQ(together.grads.size(), apart.grads.size());
  for (size_t i = 0; i < together.grads.size(); ++i) expect_near(together.grads[i], apart.grads[i]);
}

class ActivationFusionTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ActivationFusionTest, AfterAConvolution) {
  Sequential net;
  net.Add(Conv2D(5, 3)).Add(Activation(GetParam())).Add(AvgPool2D(2));
  ExpectSameAsApart(std::move(net), {2, 3, 8, 8});
}

TEST_P(ActivationFusionTest, BetweenAConvolutionAndMaxPooling) {
  Sequential net;
  net.Add(Conv2D(5, 3)).Add(Activation(GetParam())).Add(MaxPool2D(2));
  ExpectSameAsApart(std::move(net), {2, 3, 8, 8});
}

TEST_P(ActivationFusionTest, BeforeGlobalMaxPooling) {
  for (const float center : {0.0f, -4.0f}) {  // some activations fall where x is far below 0
    Sequential net;
    net.Add(Activation(GetParam())).Add(GlobalMaxPool2D());
    ExpectSameAsApart(std::move(net), {2, 3, 4, 4}, center);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, ActivationFusionTest, ::testing::ValuesIn(Activation::Names()),
                         [](const auto& info) { return std::string(info.param); });

TEST(FusionTest, AConvolutionWithoutBiasAndWithGroups) {
  Sequential net;
  net.Add(Conv2D(6, 3, {.stride = 2, .padding = 1, .use_bias = false, .groups = 3})).Add(Activation::Tanh());
  ExpectSameAsApart(std::move(net), {2, 3, 7, 7});
}

TEST(FusionTest, ARectifierAfterBatchNormalisation) {
  for (const Shape& shape : {Shape{4, 3, 5, 5}, Shape{7, 3}, Shape{3, 20, 4}}) {
    Sequential net;
    net.Add(BatchNorm()).Add(Activation::Relu());
    ExpectSameAsApart(std::move(net), shape);
  }
}

TEST(FusionTest, ARectifierAfterAResidualBlock) {
  for (const bool with_norm : {false, true}) {
    Sequential body, net;
    body.Add(Conv2D(3, 3, {.padding = 1})).Add(Activation::Relu()).Add(Conv2D(3, 1));
    if (with_norm) body.Add(BatchNorm());
    net.Add(Residual(std::move(body))).Add(Activation::Relu());
    ExpectSameAsApart(std::move(net), {4, 3, 5, 5});
    Sequential other, shortcut, second;
    other.Add(Conv2D(6, 3, {.stride = 2, .padding = 1})).Add(BatchNorm());
    shortcut.Add(Conv2D(6, 1, {.stride = 2}));
    if (with_norm) shortcut.Add(BatchNorm());
    second.Add(Residual(std::move(other), std::move(shortcut))).Add(Activation::Relu());
    ExpectSameAsApart(std::move(second), {4, 3, 5, 5});
  }
}

TEST(FusionTest, ErrorsNameTheLayerAllTheSame) {
  Sequential net;
  net.Add("conv", Conv2D(2, 3)).Add("tanh", Activation::Tanh()).Add("pool", MaxPool2D(4));
  net.CollectParams().Initialize({cpu(0)});
  try {
    net(NDArray({1, 1, 5, 5}));
    FAIL() << "3x3 has no window of 4x4";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("pool (MaxPool2D)"));
  }
}

// A frozen weight leaves its bias a gradient.
TEST(FusionTest, ABiasLearnsWithoutItsWeight) {
  Conv2D conv(2, 2);
  conv.CollectParams().Initialize({cpu(0)});
  NDArray x({1, 1, 3, 3});
  conv(x);
  conv.weight().SetGradReq(autograd::GradReq::kNull);
  NDArray y;
  {
    const autograd::RecordScope record;
    y = conv(x);
  }
  autograd::Backward({y});
  EXPECT_THAT(conv.bias()->grad(cpu(0)).ToVector(), ::testing::ElementsAre(4, 4));
}

}  // namespace
}  // namespace sluice::nn
