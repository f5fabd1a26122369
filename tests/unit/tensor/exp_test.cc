#include "tensor/formulas/exp.h"

#include <gtest/gtest.h>

namespace sluice::formulas {
namespace {

constexpr double kUnit = 0x1p-23;  // the last place's, relative

TEST(ExpTest, IsWithinTwoUnitsOverTheWholeRange) {
  for (double x = -87.2; x < 88.7; x += 0.00137) {
    const auto at = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(at));
    ASSERT_NEAR(Exp(at), expected, 2 * kUnit * expected) << at;
  }
}

TEST(ExpTest, Ends) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-88), 0);
  EXPECT_EQ(Exp(-HUGE_VALF), 0);
  EXPECT_EQ(Exp(HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(Exp(89), HUGE_VALF);
  EXPECT_TRUE(std::isfinite(Exp(88.72f)));
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  EXPECT_EQ(Tanh(HUGE_VALF), 1);
  EXPECT_EQ(Tanh(-HUGE_VALF), -1);
  EXPECT_TRUE(std::isnan(Tanh(NAN)));
}

TEST(ExpTest, RelativesAreAccurateEverywhere) {
  for (double x = -80; x < 80; x += 0.0137) {
    const auto at = static_cast<float>(x);
    const double wide = at;
    const double softplus = std::max(wide, 0.0) + std::log1p(std::exp(-std::fabs(wide)));
    ASSERT_NEAR(Softplus(at), softplus, 6 * kUnit * softplus) << at;
    const double sigmoid = 1 / (1 + std::exp(-wide));
    ASSERT_NEAR(Sigmoid(at), sigmoid, 4 * kUnit * sigmoid) << at;
    ASSERT_NEAR(Tanh(at), std::tanh(wide), 2 * kUnit * std::fabs(std::tanh(wide))) << at;
    ASSERT_NEAR(NormalCdf(at), 0.5 * std::erfc(-wide / std::sqrt(2.0)), 3e-7) << at;
  }
}

}  // namespace
}  // namespace sluice::formulas
