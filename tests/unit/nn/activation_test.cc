// Tests the activations, forward and backward, against the formulas of the device contract in
// float64 and their limits far from zero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "contract/device/activation_formulas.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using ::sluice::testing::ActivationNamed;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the activation in float64, for each element.
reference::Function Formula(const ActivationShape& a) {
  return [a](const auto& v) {
    return reference::Map(v[0], [&](double x) { return ::sluice::testing::Activated(a, x); });
  };
}

TEST(ActivationTest, MatchesTheReference) {
  for (const std::string_view name : Activation::Names()) {
    SCOPED_TRACE(name);
    Activation activation(name);
    const reference::Function f = Formula(ActivationNamed(name));
    Check(activation, {3, 7}, f, 1);
    Check(activation, {2, 3, 5, 5}, f, 2);
    Check(activation, {0, 4}, f, 3);
  }
  for (const float alpha : {0.0f, 0.3f, 2.0f}) {
    Activation leaky = Activation::LeakyRelu(alpha), elu = Activation::Elu(alpha);
    Check(leaky, {5, 9}, Formula({ActivationKind::kLeakyRelu, alpha}), 4);
    Check(elu, {5, 9}, Formula({ActivationKind::kElu, alpha}), 5);
  }
}

TEST(ActivationTest, IsMadeByName) {
  using F = Activation::Function;
  const std::vector<std::string_view> names = Activation::Names();
  ASSERT_EQ(names.size(), std::size(::sluice::testing::kActivationNames));
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(Activation(names[i]).function(), static_cast<F>(i)) << names[i];
  EXPECT_EQ(Activation("softrelu").function(), F::kSoftplus);
  EXPECT_EQ(Activation("swish").function(), F::kSilu);
  EXPECT_THAT(names, ::testing::Not(::testing::AnyOf(Contains("softrelu"), Contains("swish"))));
  const std::string message = MessageOf([] { Activation("mush"); });
  EXPECT_THAT(message, HasSubstr("no activation is called 'mush'; there are relu"));
  for (const std::string_view name : {"softplus, softrelu, silu, swish", "mish"})
    EXPECT_THAT(message, HasSubstr(std::string(name)));
}

TEST(ActivationTest, RefusesWhatIsNoAlphaOrFunction) {
  EXPECT_THAT(MessageOf([] { Activation::Elu(-1); }), HasSubstr("alpha is -1"));
  EXPECT_THAT(MessageOf([] { Activation::LeakyRelu(NAN); }), HasSubstr("alpha is nan"));
  EXPECT_THAT(MessageOf([] { Activation(Activation::Function::kRelu, 1.0f); }), HasSubstr("only leaky_relu"));
  EXPECT_THAT(MessageOf([] { Activation(static_cast<Activation::Function>(200)); }),
              HasSubstr("there is no function 200"));
}

// Values and derivatives over the whole range; near 0 they may not lose their digits.
TEST(ActivationTest, IsAccurateFarOut) {
  std::vector<float> points;
  for (const double size :
       {1e-6, 1e-3, 0.009, 0.011, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0, 80.0, 100.0, 1000.0}) {
    points.push_back(static_cast<float>(size));
    points.push_back(static_cast<float>(-size));
  }
  NDArray x = NDArray::From(std::span<const float>(points), {static_cast<int64_t>(points.size())});
  autograd::AttachGrad(x);
  for (const std::string_view name : Activation::Names()) {
    SCOPED_TRACE(name);
    const ActivationShape a = ActivationNamed(name);
    NDArray y;
    {
      const autograd::RecordScope record;
      y = Activation(name)(x);
    }
    const std::vector<float> values = y.ToVector();
    autograd::Backward({y});
    const std::vector<float> gradients = autograd::Grad(x).ToVector();
    for (size_t i = 0; i < points.size(); ++i) {
      const double value = ::sluice::testing::Activated(a, points[i]),
                   derivative = ::sluice::testing::Derivative(a, points[i]);
      EXPECT_NEAR(values[i], value, 1e-6 + 1e-6 * std::fabs(value)) << points[i];
      EXPECT_NEAR(gradients[i], derivative, 1e-6 + 1e-6 * std::fabs(derivative)) << points[i];
    }
  }
}

TEST(ActivationTest, SaturatesWithoutNan) {
  const NDArray x = NDArray::From({-1000, -20, 0, 20, 1000}, {1, 5});
  EXPECT_THAT(Activation::Tanh()(x).ToVector(), ElementsAre(-1, -1, 0, 1, 1));
  const std::vector<float> sigmoid = Activation::Sigmoid()(x).ToVector();
  EXPECT_EQ(sigmoid[0], 0);
  EXPECT_NEAR(sigmoid[1], std::exp(-20.0), 1e-13);
  EXPECT_EQ(sigmoid[2], 0.5f);
  EXPECT_EQ(sigmoid[4], 1);
}

TEST(ActivationTest, HasLimitsAtInfinity) {
  const NDArray x = NDArray::From({-HUGE_VALF, -3e38f, 3e38f, HUGE_VALF}, {4});
  EXPECT_THAT(Activation::Softsign()(x).ToVector(), ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(Activation::LogSigmoid()(x).ToVector(), ElementsAre(-HUGE_VALF, -3e38f, 0, 0));
  const std::vector<float> mish = Activation::Mish()(x).ToVector();
  EXPECT_THAT((std::vector<float>{mish[1], mish[2], mish[3]}), ElementsAre(0, 3e38f, HUGE_VALF));
}

}  // namespace
}  // namespace sluice::nn
