#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "optimizer/registry.h"
#include "sluice/optimizer.h"

namespace sluice {
namespace {

// Checks fields and keeps the first reason to refuse one.
class Checker {
 public:
  void Range(const char* field, double value, double low, double high, bool high_included = true) {
    if (!why_.empty() || (value >= low && (value < high || (high_included && value == high)))) return;
    why_ = StrCat("optimiser: ", field, " is ", value, "; it must be at least ", low,
                  high_included ? " and at most " : " and below ", high);
    if (value < 0 && value > -1e-200)  // computed from kUnset
      why_ += "; it was made of a field that is not set: set that first, or take it from Resolved(config)";
  }
  void Require(bool valid, const std::string& why) {
    if (why_.empty() && !valid) why_ = StrCat("optimiser: ", why);
  }
  std::string why() && { return std::move(why_); }

 private:
  std::string why_;
};

constexpr double kHuge = 1e30;

void CheckSchedule(const LrSchedule& s, Checker& check) {
  check.Require(s.kind <= LrScheduleKind::kCosine,
                StrCat("schedule kind ", static_cast<int>(s.kind), " is unknown"));
  check.Require(s.warmup_mode <= WarmupMode::kConstant,
                StrCat("warmup_mode ", static_cast<int>(s.warmup_mode), " is unknown"));
  check.Range("schedule.factor", s.factor, 0, kHuge);
  check.Range("schedule.step", static_cast<double>(s.step), 1, kHuge);
  check.Range("schedule.stop_factor_lr", s.stop_factor_lr, 0, kHuge);
  check.Range("schedule.final_lr", s.final_lr, 0, kHuge);
  check.Range("schedule.power", s.power, 0, 1e3);
  check.Range("schedule.max_update", static_cast<double>(s.max_update), 1, kHuge);
  check.Range("schedule.warmup_steps", static_cast<double>(s.warmup_steps), 0, kHuge);
  check.Range("schedule.warmup_begin_lr", s.warmup_begin_lr, 0, kHuge);
  check.Require(std::is_sorted(s.steps.begin(), s.steps.end()),
                StrCat("schedule.steps must ascend: ", StrJoin(s.steps)));
  check.Require(s.steps.empty() || s.steps.front() >= 0,
                StrCat("schedule.steps begins with ", StrJoin(s.steps), "; none may be below 0"));
  check.Require(s.kind == LrScheduleKind::kConstant || s.warmup_steps == 0 ||
                    s.kind == LrScheduleKind::kFactor || s.kind == LrScheduleKind::kMultiFactor ||
                    s.warmup_steps < s.max_update,
                StrCat("schedule.warmup_steps is ", s.warmup_steps, ", but max_update is ", s.max_update));
}

}  // namespace

std::string InvalidReason(const OptimizerConfig& config) {
  const OptimizerConfig c = Resolved(config);
  Checker check;
  check.Require(FindOptimizerRow(c.kind) != nullptr,
                StrCat("kind ", static_cast<int>(c.kind), " is unknown"));
  check.Range("learning_rate", c.learning_rate, 0, kHuge);
  check.Range("momentum", c.momentum, 0, 1, false);
  check.Range("wd", c.wd, 0, kHuge);
  check.Range("clip_gradient", c.clip_gradient, -kHuge, kHuge);
  check.Range("rescale_grad", c.rescale_grad, -kHuge, kHuge);
  check.Range("beta1", c.beta1, 0, 1, false);
  check.Range("beta2", c.beta2, 0, 1, false);
  check.Range("epsilon", c.epsilon, 0, kHuge);
  check.Range("rho", c.rho, 0, 1, false);
  check.Range("lambda1", c.lambda1, 0, kHuge);
  check.Range("beta", c.beta, 0, kHuge);
  check.Range("lower_bound", c.lower_bound, 0, kHuge);
  check.Range("upper_bound", c.upper_bound, 0, kHuge);
  check.Require(c.upper_bound == 0 || c.lower_bound <= c.upper_bound,
                StrCat("lower_bound is ", c.lower_bound, ", but upper_bound is ", c.upper_bound));
  check.Range("wd_lh", c.wd_lh, 0, kHuge);
  CheckSchedule(c.schedule, check);
  for (const auto& [key, multiplier] : c.multipliers) {
    check.Range(StrCat("lr_mult of ", key).c_str(), multiplier.lr_mult, -kHuge, kHuge);
    check.Range(StrCat("wd_mult of ", key).c_str(), multiplier.wd_mult, -kHuge, kHuge);
  }
  return std::move(check).why();
}

}  // namespace sluice
