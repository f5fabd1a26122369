// The formula of each kind of optimiser, and the factors of an update: for whatever loops over elements.
#pragma once

#include "optimizer/formulas/adam.h"
#include "optimizer/formulas/adaptive.h"
#include "optimizer/formulas/descent.h"

namespace sluice {

// Calls visit.operator()<Formula>() with the formula of a valid configuration and returns what it returns.
// Momentum is a state of its own, so that some kinds have two formulas.
template <typename Visit>
auto WithFormula(const OptimizerConfig& config, Visit&& visit) {
  using namespace formulas;
  const bool momentum = config.momentum != 0;
  switch (config.kind) {
    case OptimizerKind::kSgd:
      if (momentum) return visit.template operator()<SgdMomentum>();
      return visit.template operator()<Sgd>();
    case OptimizerKind::kNag:
      return visit.template operator()<Nag>();
    case OptimizerKind::kAdam:
      return visit.template operator()<Adam>();
    case OptimizerKind::kAccumulate:
      return visit.template operator()<Accumulate>();
    case OptimizerKind::kAdamW:
      return visit.template operator()<AdamW>();
    case OptimizerKind::kAdaGrad:
      return visit.template operator()<AdaGrad>();
    case OptimizerKind::kRmsProp:
      if (config.centered && momentum) return visit.template operator()<RmsPropCenteredMomentum>();
      if (config.centered) return visit.template operator()<RmsPropCentered>();
      if (momentum) return visit.template operator()<RmsPropMomentum>();
      return visit.template operator()<RmsProp>();
    case OptimizerKind::kFtrl:
      return visit.template operator()<Ftrl>();
    case OptimizerKind::kLamb:
      return visit.template operator()<Lamb>();
    case OptimizerKind::kDelayedNag:
      return visit.template operator()<DelayedNag>();
    case OptimizerKind::kSignum:
      break;
  }
  if (momentum) return visit.template operator()<Signum>();
  return visit.template operator()<SignSgd>();
}

// Returns what a formula is made from; it refers to both arguments.
inline formulas::Update FactorsOf(const Optimizer& optimizer, const Optimizer::Step& step) {
  const int64_t t = (step.num_update - 1) / step.updates_per_step + 1;
  return {optimizer.config(), step, optimizer.LearningRate(t) * step.lr_mult};
}

}  // namespace sluice
