// Tests the initialisers: moments of what they draw, and that values depend on seed and name alone.
#include "sluice/initializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice::nn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments m{0, 0, values[0], values[0]};
  for (const float v : values) {
    m.mean += v;
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

TEST(Xavier, DefaultIsGlorotsUniform) {
  const Moments m = MomentsOf(Xavier().Values("w", {300, 500}, 1));
  const double bound = std::sqrt(6.0 / (300 + 500));
  EXPECT_LE(m.high, bound);
  EXPECT_GE(m.low, -bound);
  EXPECT_NEAR(m.high, bound, 1e-3 * bound);
  EXPECT_NEAR(m.low, -bound, 1e-3 * bound);
  EXPECT_NEAR(m.mean, 0, bound / 100);
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), bound / 100);
}

TEST(LstmBias, OpensTheForgetGatesAlone) {
  EXPECT_EQ(LstmBias(1.5).Values("b", {8}, 1), (std::vector<float>{0, 0, 1.5, 1.5, 0, 0, 0, 0}));
  for (const Shape& shape : {Shape{6}, Shape{4, 2}, Shape{}})
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { LstmBias().Values("l0_i2h_bias", shape, 1); }),
                HasSubstr("l0_i2h_bias"));
}

TEST(Xavier, CountsTheWindowInBothFans) {
  // [50, 20, 5, 5]: fan-in 20 * 25, fan-out 50 * 25.
  const double fan_in = 500, fan_out = 1250;
  const Shape shape{50, 20, 5, 5};
  const auto highest = [&](FactorType type) {
    return MomentsOf(Xavier(RandomType::kUniform, type, 2).Values("w", shape, 3)).high;
  };
  EXPECT_NEAR(highest(FactorType::kIn), std::sqrt(2 / fan_in), 1e-3 * std::sqrt(2 / fan_in));
  EXPECT_NEAR(highest(FactorType::kOut), std::sqrt(2 / fan_out), 1e-3 * std::sqrt(2 / fan_out));
  EXPECT_NEAR(highest(FactorType::kAvg), std::sqrt(4 / (fan_in + fan_out)),
              1e-3 * std::sqrt(4 / (fan_in + fan_out)));
}

TEST(Xavier, GaussianHasTheScaleAsDeviation) {
  const Moments m = MomentsOf(Xavier(RandomType::kGaussian, FactorType::kIn, 2).Values("w", {400, 500}, 5));
  EXPECT_NEAR(m.deviation, std::sqrt(2.0 / 500), 0.01 * std::sqrt(2.0 / 500));
  EXPECT_GT(m.high, 3 * m.deviation);  // no uniform reaches that
}

TEST(Xavier, RefusesWhatHasNoFans) {
  try {
    Xavier().Values("bn.gamma", {64}, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("'bn.gamma' of shape [64]"));
  }
  EXPECT_THROW(Xavier(RandomType::kUniform, FactorType::kAvg, -1), Error);
}

TEST(Initializer, UniformAndNormalHaveTheirMoments) {
  const Moments uniform = MomentsOf(Uniform(0.2).Values("w", {100000}, 1));
  EXPECT_NEAR(uniform.low, -0.2, 1e-3);
  EXPECT_NEAR(uniform.high, 0.2, 1e-3);
  EXPECT_NEAR(uniform.deviation, 0.2 / std::sqrt(3.0), 2e-3);
  const Moments normal = MomentsOf(Normal(0.3).Values("w", {100000}, 1));
  EXPECT_NEAR(normal.mean, 0, 5e-3);
  EXPECT_NEAR(normal.deviation, 0.3, 5e-3);
  EXPECT_THROW(Uniform(0), Error);
  EXPECT_THROW(Normal(std::nan("")), Error);
}

TEST(Initializer, ConstantsFill) {
  EXPECT_THAT(Zero().Values("b", {3}, 9), Each(0));
  EXPECT_THAT(One().Values("b", {3}, 9), Each(1));
  EXPECT_THAT(Constant(0.5).Values("b", {2, 2}, 9), Each(0.5));
}

TEST(Initializer, ValuesDependOnSeedAndNameOnly) {
  const Xavier xavier;
  const auto values = xavier.Values("conv1.weight", {20, 1, 5, 5}, 1);
  EXPECT_EQ(Xavier().Values("conv1.weight", {20, 1, 5, 5}, 1), values);
  EXPECT_NE(xavier.Values("conv1.weight", {20, 1, 5, 5}, 2), values);
  EXPECT_NE(xavier.Values("conv2.weight", {20, 1, 5, 5}, 1), values);
}

}  // namespace
}  // namespace sluice::nn
