// The device contract of activations: the values of all kinds and their gradients by float64 formulas, in
// place and apart, for ordinary, small and large numbers, at the infinities, and for NaN.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "contract/device/activation_formulas.h"
#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

// The formulas of this test are tried by differences.
TEST(ActivationFormulas, DerivativesAreThoseOfTheActivations) {
  for (const ActivationShape& a : kActivations)
    for (const double x : {-6.0, -2.5, -1.0, -0.1, 0.1, 0.7, 2.0, 5.0}) {
      constexpr double kStep = 1e-5;
      const double difference = Activated(a, x + kStep) - Activated(a, x - kStep);
      EXPECT_NEAR(Derivative(a, x), difference / (2 * kStep), 1e-8) << NameOf(a) << " at " << x;
    }
}

class DeviceActivation : public DeviceTest {
 protected:
  // Returns the activation of x by the device.
  std::vector<float> Activate(const ActivationShape& a, const std::vector<float>& x, bool in_place = false) {
    Clear();
    const auto n = static_cast<int64_t>(x.size());
    float* const out = in_place ? InOut(x) : Output<float>(n);
    const float* const px = in_place ? out : Input(x);
    Run([&](Kernels& k) { k.Activation({.shape = a, .x = px, .out = out, .n = n}); });
    return Read(out);
  }
  // Returns the gradients by what the device is given as `kept`.
  std::vector<float> Gradient(const ActivationShape& a, const std::vector<float>& kept,
                              const std::vector<float>& grad) {
    Clear();
    const auto n = static_cast<int64_t>(kept.size());
    const float *const pk = Input(kept), *const pg = Input(grad);
    float* const grad_x = Output<float>(n);
    Run([&](Kernels& k) {
      k.ActivationBackward({.shape = a, .kept = pk, .grad = pg, .grad_x = grad_x, .n = n});
    });
    return Read(grad_x);
  }
  // Returns what ActivationBackward gets for the inputs x: the outputs, or x itself.
  static std::vector<float> Kept(const ActivationShape& a, std::vector<float> x) {
    if (!a.FromOutput()) return x;
    for (float& value : x) value = static_cast<float>(Activated(a, value));
    return x;
  }
  // Returns n numbers. Few of them lie where no result is a small difference of larger numbers.
  std::vector<float> Inputs(int64_t n) { return n < 16 ? Uniform(n, -2, 2) : Uniform(n, -8, 8); }
  // Returns of(x_i) for all i.
  template <typename Function>
  static std::vector<double> Map(const std::vector<float>& x, Function&& of) {
    std::vector<double> results;
    for (const float value : x) results.push_back(of(double{value}));
    return results;
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceActivation);

TEST_P(DeviceActivation, IsItsFormulaInPlaceAndApart) {
  for (const ActivationShape& a : kActivations)
    for (const int64_t n : {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4097, 100'003})
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(NameOf(a) + ", " + std::to_string(n) + " elements" + (in_place ? ", in place" : ""));
        const std::vector<float> x = Inputs(n);
        ExpectNear(Activate(a, x, in_place), Map(x, [&](double value) { return Activated(a, value); }));
      }
}

TEST_P(DeviceActivation, BackwardIsTheGradientTimesTheDerivative) {
  for (const ActivationShape& a : kActivations)
    for (const int64_t n : {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4097, 100'003}) {
      SCOPED_TRACE(NameOf(a) + ", " + std::to_string(n) + " elements");
      const std::vector<float> x = Inputs(n), grad = Uniform(n, -2, 2);
      std::vector<double> expected = Map(x, [&](double value) { return Derivative(a, value); });
      for (size_t i = 0; i < grad.size(); ++i) expected[i] *= grad[i];
      ExpectNear(Gradient(a, Kept(a, x), grad), expected);
    }
}

// Near 0 a formula such as e^x - 1 loses digits in float32, unless it is computed with care.
TEST_P(DeviceActivation, KeepsTheDigitsOfSmallNumbers) {
  for (const ActivationShape& a : kActivations)
    for (const double magnitude : {1e-2, 1e-4, 1e-8, 1e-30}) {
      SCOPED_TRACE(NameOf(a) + ", magnitude " + std::to_string(magnitude));
      const std::vector<float> x = Uniform(77, -magnitude, magnitude);
      ExpectNear(Activate(a, x), Map(x, [&](double value) { return Activated(a, value); }));
    }
}

// Where these are near 0 themselves, 1 + e^x is 1 in float32.
TEST_P(DeviceActivation, KeepsTheDigitsOfSmallResults) {
  for (const auto& [kind, low] : {std::pair{ActivationKind::kSigmoid, -40.0},
                                  {ActivationKind::kSoftplus, -40.0},
                                  {ActivationKind::kSilu, -40.0},
                                  {ActivationKind::kMish, -40.0},
                                  {ActivationKind::kLogSigmoid, 15.0}}) {
    const ActivationShape a = {kind};
    for (double begin = low; begin < low + 25; ++begin) {
      SCOPED_TRACE(NameOf(a) + " from " + std::to_string(begin));
      const std::vector<float> x = Uniform(77, begin, begin + 1);
      ExpectNear(Activate(a, x), Map(x, [&](double value) { return Activated(a, value); }));
    }
  }
}

TEST_P(DeviceActivation, NumbersOfAnySizeDoNotOverflow) {
  std::vector<float> x;
  for (const float magnitude : {30.0f, 80.0f, 87.0f, 88.5f, 89.0f, 104.0f, 1e3f, 1e10f, 2e19f, 1e30f, kMax})
    x.insert(x.end(), {magnitude, -magnitude});
  const auto expect_near = [&](const std::vector<float>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < x.size(); ++i)  // a result below 1e-36 may be rounded to 0
      EXPECT_NEAR(actual[i], expected[i], 1e-5 * std::abs(expected[i]) + 1e-36) << "for x = " << x[i];
  };
  for (const ActivationShape& a : kActivations) {
    SCOPED_TRACE(NameOf(a));
    expect_near(Activate(a, x), Map(x, [&](double value) { return Activated(a, value); }));
    SCOPED_TRACE("gradient");
    const std::vector<float> ones(x.size(), 1.0f), gradient = Gradient(a, Kept(a, x), ones);
    ASSERT_EQ(gradient.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i)  // the outputs that some of them come from are rounded
      EXPECT_NEAR(gradient[i], Derivative(a, x[i]), 1e-6) << "for x = " << x[i];
  }
}

// Gelu, silu and mish are x times a factor, which is 0 at -infinity: there they are left out, as are their
// gradients at both infinities.
TEST_P(DeviceActivation, HasItsLimitsAtTheInfinities) {
  struct Limits {
    ActivationShape shape;
    std::optional<float> low;  // at -infinity
    float high;
    std::optional<std::pair<float, float>> gradients;
  };
  using K = ActivationKind;
  const Limits all[] = {{{K::kRelu}, 0.0f, kInf, {{0, 1}}},
                        {{K::kTanh}, -1.0f, 1, {{0, 0}}},
                        {{K::kSigmoid}, 0.0f, 1, {{0, 0}}},
                        {{K::kLeakyRelu, 0.5f}, -kInf, kInf, {{0.5f, 1}}},
                        {{K::kElu, 0.75f}, -0.75f, kInf, {{0, 1}}},
                        {{K::kGelu}, {}, kInf, {}},
                        {{K::kSoftplus}, 0.0f, kInf, {{0, 1}}},
                        {{K::kSilu}, {}, kInf, {}},
                        {{K::kSoftsign}, -1.0f, 1, {{0, 0}}},
                        {{K::kLogSigmoid}, -kInf, 0, {{1, 0}}},
                        {{K::kMish}, {}, kInf, {}}};
  for (const auto& [a, low, high, gradients] : all) {
    SCOPED_TRACE(NameOf(a));
    std::vector<float> x(37);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? -kInf : kInf;
    const std::vector<float> out = Activate(a, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] > 0 || low) {
        EXPECT_EQ(out[i], x[i] > 0 ? high : *low) << "element " << i;
      }
    }
    if (!gradients) continue;
    SCOPED_TRACE("gradient");
    const std::vector<float> gradient = Gradient(a, a.FromOutput() ? out : x, std::vector<float>(37, 2.0f));
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(gradient[i], 2 * (x[i] > 0 ? gradients->second : gradients->first)) << "element " << i;
  }
}

TEST_P(DeviceActivation, NaNStaysNaNAmongOtherNumbers) {
  for (const ActivationShape& a : kActivations)
    for (const int64_t n : {1, 5, 70}) {
      SCOPED_TRACE(NameOf(a) + ", " + std::to_string(n) + " elements");
      std::vector<float> x = Uniform(n, -3, 3);
      for (size_t i = 0; i < x.size(); i += 3) x[i] = i % 2 == 0 ? kNaN : -kNaN;
      ExpectNear(Activate(a, x), Map(x, [&](double value) { return Activated(a, value); }));
    }
}

TEST_P(DeviceActivation, BackwardHandsNaNOfAGradientOn) {
  for (const ActivationShape& a : kActivations) {
    SCOPED_TRACE(NameOf(a));
    const std::vector<float> x = Uniform(70, 0.1, 3);
    std::vector<float> grad = Uniform(70);
    for (size_t i = 0; i < grad.size(); i += 3) grad[i] = kNaN;
    std::vector<double> expected = Map(x, [&](double value) { return Derivative(a, value); });
    for (size_t i = 0; i < grad.size(); ++i) expected[i] *= grad[i];
    ExpectNear(Gradient(a, Kept(a, x), grad), expected);
  }
}

// At 0 relu has the gradient 0, and at NaN, which it has let pass, it lets the gradient pass.
TEST_P(DeviceActivation, GradientsAt0AreThoseOfNegativeNumbers) {
  const std::vector<float> kept = {0, -0.0f, 1e-45f, kNaN, 1}, grad = {3, 5, 7, 9, 11};
  EXPECT_EQ(Gradient({ActivationKind::kRelu}, kept, grad), (std::vector<float>{0, 0, 7, 9, 11}));
  const std::vector<float> zeros = {0, -0.0f}, two = {3, 5};
  EXPECT_EQ(Gradient({ActivationKind::kLeakyRelu, 0.5f}, zeros, two), (std::vector<float>{1.5f, 2.5f}));
  EXPECT_EQ(Gradient({ActivationKind::kElu, 0.5f}, zeros, two), (std::vector<float>{1.5f, 2.5f}));
}

}  // namespace
}  // namespace sluice::testing
