// Learning rate schedules: pure functions of t, the step.
#pragma once

#include "sluice/optimizer.h"

namespace sluice {

// The rate for step `t` (from 1) when the base rate is `base`. Formulas of MXNet's lr_scheduler.py
// (Apache MXNet 1.9):
//   factor        base * factor^k, k = floor((t - 1) / step), never below stop_factor_lr
//   multi_factor  base * factor^k, k = how many of `steps` are below t
//   poly          final + (base - final) * (1 - (t - warmup) / (max_update - warmup))^power
//   cosine        final + (base - final) * (1 + cos(pi * (t - warmup) / (max_update - warmup))) / 2
// and, while t < warmup_steps: linear from warmup_begin_lr to base, or constantly warmup_begin_lr.
double LearningRateAt(const LrSchedule& schedule, double base, int64_t t);

}  // namespace sluice
