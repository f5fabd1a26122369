// Tests the learning-rate schedules against their formulas, and their warm-up.
#include "optimizer/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

constexpr double kBase = 0.4;

// At every update, from before the first to far beyond the last edge.
template <typename ClosedForm>
void ExpectRates(const LrSchedule& schedule, const ClosedForm& closed_form, int64_t last = 200) {
  for (int64_t update = 0; update <= last; ++update) {
    const double expected = closed_form(update);
    ASSERT_NEAR(LearningRateAt(schedule, kBase, update), expected, 1e-12 * expected) << "update " << update;
  }
}

TEST(Schedule, ConstantIsTheBaseRate) {
  ExpectRates({}, [](int64_t) { return kBase; });
}

TEST(Schedule, FactorDropsAfterEveryStep) {
  const LrSchedule schedule{.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 10};
  ExpectRates(schedule, [](int64_t update) {
    double rate = kBase;
    for (int64_t drop = 10; drop < update; drop += 10) rate *= 0.5;
    return rate;
  });
  EXPECT_EQ(LearningRateAt(schedule, kBase, 10), kBase);
  EXPECT_EQ(LearningRateAt(schedule, kBase, 11), kBase / 2);
}

TEST(Schedule, FactorStopsAtItsLowestRate) {
  LrSchedule schedule{.kind = LrScheduleKind::kFactor, .factor = 0.1, .step = 3, .stop_factor_lr = 0.01};
  ExpectRates(schedule, [](int64_t update) { return update <= 3 ? 0.4 : update <= 6 ? 0.04 : 0.01; });
  schedule.stop_factor_lr = 1;  // above the base rate: never raises it
  ExpectRates(schedule, [](int64_t) { return kBase; });
}

TEST(Schedule, MultiFactorDropsAfterEachNamedUpdate) {
  const LrSchedule schedule{.kind = LrScheduleKind::kMultiFactor, .factor = 0.1, .steps = {5, 8, 150}};
  ExpectRates(schedule, [](int64_t update) {
    return update <= 5 ? 0.4 : update <= 8 ? 0.04 : update <= 150 ? 0.004 : 0.0004;
  });
  ExpectRates({.kind = LrScheduleKind::kMultiFactor, .factor = 0.1}, [](int64_t) { return kBase; });
}

TEST(Schedule, PolyReachesItsEndAndStays) {
  for (const double power : {1.0, 2.0, 0.5}) {
    const LrSchedule schedule{
        .kind = LrScheduleKind::kPoly, .max_update = 100, .final_lr = 0.1, .power = power};
    ExpectRates(schedule, [&](int64_t update) {
      if (update >= 100) return 0.1;
      return 0.1 + 0.3 * std::pow(static_cast<double>(100 - update) / 100.0, power);
    });
  }
}

TEST(Schedule, CosineReachesItsEndAndStays) {
  const LrSchedule schedule{.kind = LrScheduleKind::kCosine, .max_update = 100, .final_lr = 0.1};
  // (1 + cos x) / 2 = cos^2(x / 2)
  ExpectRates(schedule, [](int64_t update) {
    if (update >= 100) return 0.1;
    const double half = std::cos(std::acos(-1.0) * static_cast<double>(update) / 200.0);
    return 0.1 + 0.3 * half * half;
  });
}

TEST(Schedule, WarmUpRisesToTheBaseRate) {
  const LrSchedule schedule{.warmup_steps = 8, .warmup_begin_lr = 0.04};
  ExpectRates(schedule,
              [](int64_t update) { return update < 8 ? 0.04 + 0.045 * static_cast<double>(update) : kBase; });
}

TEST(Schedule, WarmUpMayStandStill) {
  const LrSchedule schedule{.warmup_steps = 8, .warmup_begin_lr = 0.04, .warmup_mode = WarmupMode::kConstant};
  ExpectRates(schedule, [](int64_t update) { return update < 8 ? 0.04 : kBase; });
}

TEST(Schedule, CurvesBeginWhereTheWarmUpEnds) {
  LrSchedule schedule{.kind = LrScheduleKind::kPoly, .max_update = 60, .power = 2, .warmup_steps = 20};
  ExpectRates(schedule, [](int64_t update) {
    if (update < 20) return kBase * static_cast<double>(update) / 20;
    const double left = std::max<double>(0, static_cast<double>(60 - update) / 40);
    return kBase * left * left;
  });
  schedule.kind = LrScheduleKind::kCosine;
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 20), kBase);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 40), kBase / 2);
  EXPECT_NEAR(LearningRateAt(schedule, kBase, 60), 0, 1e-15);
}

// MXNet's factor schedules count their steps from the first update, the warm-up's included.
TEST(Schedule, FactorsCountTheWarmUp) {
  LrSchedule schedule{.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 10, .warmup_steps = 15};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 14), kBase * 14 / 15);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 15), kBase / 2);
  schedule.kind = LrScheduleKind::kMultiFactor;
  schedule.steps = {10, 20};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 20), kBase / 2);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 21), kBase / 4);
}

// What training that goes on has behind it.
TEST(Schedule, AStepAtZeroHoldsFromTheFirstUpdate) {
  const LrSchedule schedule{.kind = LrScheduleKind::kMultiFactor, .factor = 0.5, .steps = {0, 0, 2}};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 1), kBase / 4);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, kBase, 3), kBase / 8);
}

TEST(Schedule, OfAnOptimizerStartsFromItsLearningRate) {
  OptimizerConfig config;
  config.learning_rate = 8;
  config.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.25, .step = 2};
  const auto optimizer = Optimizer::Create(config);
  EXPECT_EQ(optimizer->LearningRate(1), 8);
  EXPECT_EQ(optimizer->LearningRate(3), 2);
}

}  // namespace
}  // namespace sluice
