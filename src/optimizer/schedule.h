// Learning rate schedules, which are pure functions of the step t.
#pragma once

#include "sluice/optimizer.h"

namespace sluice {

// Returns the learning rate for step `t` (counted from 1) when the base rate is `base`. The formulas are
// those of lr_scheduler.py of Apache MXNet 1.9:
//   factor        base * factor^k, k = floor((t - 1) / step); at least min(stop_factor_lr, base)
//   multi_factor  base * factor^k, k = the number of `steps` below t
//   poly          final + (base - final) * (1 - (t - warmup) / (max_update - warmup))^power
//   cosine        final + (base - final) * (1 + cos(pi * (t - warmup) / (max_update - warmup))) / 2
// While t < warmup_steps, the rate rises linearly from warmup_begin_lr to base, or is warmup_begin_lr.
double LearningRateAt(const LrSchedule& schedule, double base, int64_t t);

}  // namespace sluice
