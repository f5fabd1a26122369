// Tests the activations, forward and backward, against formulas in float64 and their limits far from zero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"

namespace sluice::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string MessageOf(const std::function<void()>& call) {
  return ErrorOf(ErrorCode::kInvalidArgument, call);
}

using Scalar = double (*)(double);
constexpr double kRootHalf = 0.70710678118654752440;
double Cdf(double x) {
  return 0.5 * std::erfc(-x * kRootHalf);
}

double Log1pExp(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

TEST(ActivationTest, MatchesTheReference) {
  const std::pair<const char*, Scalar> functions[] = {
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"leaky_relu", [](double x) { return x > 0 ? x : 0.01f * x; }},
      {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"gelu", [](double x) { return x * Cdf(x); }},
      {"softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {"softrelu", [](double x) { return std::log1p(std::exp(x)); }},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
      {"swish", [](double x) { return x / (1 + std::exp(-x)); }},
      {"softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"log_sigmoid", [](double x) { return -std::log1p(std::exp(-x)); }},
      {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }}};
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    Activation activation(name);
    const auto f = [function = function](const auto& v) { return reference::Map(v[0], function); };
    Check(activation, {3, 7}, f, 1);
    Check(activation, {2, 3, 5, 5}, f, 2);
    Check(activation, {0, 4}, f, 3);
  }
  for (const float alpha : {0.0f, 0.3f, 2.0f}) {
    Activation leaky = Activation::LeakyRelu(alpha), elu = Activation::Elu(alpha);
    Check(
        leaky, {5, 9},
        [&](const auto& v) { return reference::Map(v[0], [&](double x) { return x > 0 ? x : alpha * x; }); },
        4);
    Check(
        elu, {5, 9},
        [&](const auto& v) {
          return reference::Map(v[0], [&](double x) { return x > 0 ? x : alpha * std::expm1(x); });
        },
        5);
  }
  EXPECT_THAT(MessageOf([] { Activation("mush"); }),
              HasSubstr("no activation is called 'mush'; there are relu"));
  EXPECT_THAT(MessageOf([] { Activation::Elu(-1); }), HasSubstr("alpha is -1"));
  EXPECT_THAT(MessageOf([] { Activation::LeakyRelu(NAN); }), HasSubstr("alpha is nan"));
  EXPECT_THAT(MessageOf([] { Activation(Activation::Function::kRelu, 1.0f); }), HasSubstr("only leaky_relu"));
}

// Values and derivatives over the whole range; near 0 they may not lose their digits.
TEST(ActivationTest, IsAccurateFarOut) {
  struct Case {
    Activation activation;
    Scalar value, derivative;
  };
  Case cases[] = {{Activation::Elu(), [](double x) { return x > 0 ? x : std::expm1(x); },
                   [](double x) { return x > 0 ? 1 : std::exp(x); }},
                  {Activation::Gelu(), [](double x) { return x * Cdf(x); },
                   [](double x) { return Cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }},
                  {Activation::Softplus(),
                   [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); },
                   [](double x) { return 1 / (1 + std::exp(-x)); }},
                  {Activation::Silu(), [](double x) { return x / (1 + std::exp(-x)); },
                   [](double x) {
                     const double s = 1 / (1 + std::exp(-x));
                     return s + x * s * (1 - s);
                   }},
                  {Activation::Softsign(), [](double x) { return x / (1 + std::fabs(x)); },
                   [](double x) { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }},
                  {Activation::LogSigmoid(),
                   [](double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); },
                   [](double x) { return 1 / (1 + std::exp(x)); }},
                  {Activation::Mish(), [](double x) { return x * std::tanh(Log1pExp(x)); },
                   [](double x) {
                     const double t = std::tanh(Log1pExp(x));
                     return t + x * (1 - t * t) / (1 + std::exp(-x));
                   }}};
  std::vector<float> points;
  for (const double size :
       {1e-6, 1e-3, 0.009, 0.011, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0, 80.0, 100.0, 1000.0}) {
    points.push_back(static_cast<float>(size));
    points.push_back(static_cast<float>(-size));
  }
  NDArray x = NDArray::From(std::span<const float>(points), {static_cast<int64_t>(points.size())});
  autograd::AttachGrad(x);
  for (Case& c : cases) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = c.activation(x);
    }
    const std::vector<float> values = y.ToVector();
    autograd::Backward({y});
    const std::vector<float> gradients = autograd::Grad(x).ToVector();
    for (size_t i = 0; i < points.size(); ++i) {
      const double value = c.value(points[i]), derivative = c.derivative(points[i]);
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
