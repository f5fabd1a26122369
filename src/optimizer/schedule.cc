#include "optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

// Returns how far step t is on the way from the end of the warm-up (0) to max_update (1).
double Progress(const LrSchedule& schedule, int64_t t) {
  const auto span = static_cast<double>(std::max<int64_t>(1, schedule.max_update - schedule.warmup_steps));
  return std::clamp(static_cast<double>(t - schedule.warmup_steps) / span, 0.0, 1.0);
}

}  // namespace

double LearningRateAt(const LrSchedule& s, double base, int64_t t) {
  if (t < s.warmup_steps) {
    if (s.warmup_mode == WarmupMode::kConstant) return s.warmup_begin_lr;
    return s.warmup_begin_lr +
           (base - s.warmup_begin_lr) * static_cast<double>(t) / static_cast<double>(s.warmup_steps);
  }
  switch (s.kind) {
    case LrScheduleKind::kConstant:
      return base;
    case LrScheduleKind::kFactor: {
      const int64_t drops = (std::max<int64_t>(t, 1) - 1) / s.step;
      return std::max(base * std::pow(s.factor, static_cast<double>(drops)),
                      std::min(s.stop_factor_lr, base));
    }
    case LrScheduleKind::kMultiFactor: {
      const auto drops =
          std::count_if(s.steps.begin(), s.steps.end(), [&](int64_t step) { return t > step; });
      return base * std::pow(s.factor, static_cast<double>(drops));
    }
    case LrScheduleKind::kPoly:
      return s.final_lr + (base - s.final_lr) * std::pow(1 - Progress(s, t), s.power);
    case LrScheduleKind::kCosine:
      return s.final_lr + (base - s.final_lr) * (1 + std::cos(std::numbers::pi * Progress(s, t))) / 2;
  }
  return base;
}

}  // namespace sluice
