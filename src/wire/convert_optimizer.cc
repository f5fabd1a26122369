// Converts SetOptimizer, with its optimiser configuration and learning rate schedule, to and from protobuf's
// classes. A configuration travels with all fields set (Resolved), so that no kind's default has to be
// agreed upon. FromWire checks each field by itself: enums, finite numbers and counts. Called by
// convert_body.cc, on any thread; no state.
#include "optimizer.pb.h"
#include "optimizer/registry.h"
#include "wire/convert.h"

namespace sluice::wire {
namespace {

void ToWire(const LrSchedule& in, pb::LrSchedule* out) {
  out->set_kind(EnumToWire<pb::LrSchedule::Kind>(in.kind));
  out->set_factor(in.factor);
  out->set_step(in.step);
  out->set_stop_factor_lr(in.stop_factor_lr);
  out->mutable_steps()->Add(in.steps.begin(), in.steps.end());
  out->set_max_update(in.max_update);
  out->set_final_lr(in.final_lr);
  out->set_power(in.power);
  out->set_warmup_steps(in.warmup_steps);
  out->set_warmup_begin_lr(in.warmup_begin_lr);
  out->set_warmup_mode(EnumToWire<pb::LrSchedule::WarmupMode>(in.warmup_mode));
}

bool FromWire(const pb::LrSchedule& in, Checker& checker, LrSchedule* out) {
  if (!checker.Count(in.steps_size(), checker.limits().max_keys, "schedule steps")) return false;
  out->factor = in.factor();
  out->step = in.step();
  out->stop_factor_lr = in.stop_factor_lr();
  out->steps.assign(in.steps().begin(), in.steps().end());
  out->max_update = in.max_update();
  out->final_lr = in.final_lr();
  out->power = in.power();
  out->warmup_steps = in.warmup_steps();
  out->warmup_begin_lr = in.warmup_begin_lr();
  return checker.Enum(in.kind(), LrScheduleKind::kCosine, "schedule kind", &out->kind) &&
         checker.Enum(in.warmup_mode(), WarmupMode::kConstant, "warm-up mode", &out->warmup_mode) &&
         checker.Finite(out->factor, "factor") && checker.Finite(out->stop_factor_lr, "stop_factor_lr") &&
         checker.Finite(out->final_lr, "final_lr") && checker.Finite(out->power, "power") &&
         checker.Finite(out->warmup_begin_lr, "warmup_begin_lr");
}

void ToWire(const OptimizerConfig& config, pb::Optimizer* out) {
  const OptimizerConfig in = Resolved(config);
  out->set_kind(EnumToWire<pb::Optimizer::Kind>(in.kind));
  out->set_learning_rate(in.learning_rate);
  out->set_momentum(in.momentum);
  out->set_wd(in.wd);
  out->set_clip_gradient(in.clip_gradient);
  out->set_rescale_grad(in.rescale_grad);
  out->set_beta1(in.beta1);
  out->set_beta2(in.beta2);
  out->set_epsilon(in.epsilon);
  ToWire(in.schedule, out->mutable_schedule());
  out->set_normalize(in.normalize_by_samples ? pb::Optimizer::NORMALIZE_BY_SAMPLES
                                             : pb::Optimizer::NORMALIZE_BY_DIVISOR);
  out->set_rho(in.rho);
  out->set_center(in.centered ? pb::Optimizer::CENTER_MEAN : pb::Optimizer::CENTER_ZERO);
  out->set_lambda1(in.lambda1);
  out->set_beta(in.beta);
  out->set_lower_bound(in.lower_bound);
  out->set_upper_bound(in.upper_bound);
  out->set_wd_lh(in.wd_lh);
  out->set_precision(in.multi_precision ? pb::Optimizer::PRECISION_MASTER : pb::Optimizer::PRECISION_STORED);
  for (const auto& [key, multiplier] : in.multipliers) {
    pb::Optimizer::Multiplier* m = out->add_multipliers();
    m->set_key(key);
    m->set_lr_mult(multiplier.lr_mult);
    m->set_wd_mult(multiplier.wd_mult);
  }
}

// Converts an enum of two values (1 and 2 on the wire) to a bool, which is true for the value `on`.
template <typename E>
bool Flag(int on_wire, E on, const char* what, Checker& checker, bool* out) {
  *out = on_wire == static_cast<int>(on);
  return (on_wire >= 1 && on_wire <= 2) || checker.Reject("the ", what, " is ", on_wire);
}

bool FromWire(const pb::Optimizer::Multiplier& in, Checker& checker,
              std::map<std::string, LrWdMultiplier>* out) {
  std::string key;
  if (!checker.Text(in.key(), "key name", &key) || !checker.Finite(in.lr_mult(), "lr_mult") ||
      !checker.Finite(in.wd_mult(), "wd_mult")) {
    return false;
  }
  return out->emplace(std::move(key), LrWdMultiplier{in.lr_mult(), in.wd_mult()}).second ||
         checker.Reject("key '", in.key(), "' has two multipliers");
}

bool FromWire(const pb::Optimizer& in, Checker& checker, OptimizerConfig* out) {
  if (!Flag(in.normalize(), pb::Optimizer::NORMALIZE_BY_SAMPLES, "normalisation", checker,
            &out->normalize_by_samples) ||
      !Flag(in.center(), pb::Optimizer::CENTER_MEAN, "centre", checker, &out->centered) ||
      !Flag(in.precision(), pb::Optimizer::PRECISION_MASTER, "precision", checker, &out->multi_precision)) {
    return false;
  }
  if (!checker.Count(in.multipliers_size(), checker.limits().max_set_keys, "multipliers")) return false;
  for (const pb::Optimizer::Multiplier& multiplier : in.multipliers()) {
    if (!FromWire(multiplier, checker, &out->multipliers)) return false;
  }
  const auto number = [&](double value, const char* what, auto* field) {
    *field = value;
    return checker.Finite(value, what);
  };
  return checker.Enum(in.kind(), OptimizerRows().back().kind, "optimizer", &out->kind) &&
         number(in.learning_rate(), "learning_rate", &out->learning_rate) &&
         number(in.momentum(), "momentum", &out->momentum) && number(in.wd(), "wd", &out->wd) &&
         number(in.clip_gradient(), "clip_gradient", &out->clip_gradient) &&
         number(in.rescale_grad(), "rescale_grad", &out->rescale_grad) &&
         number(in.beta1(), "beta1", &out->beta1) && number(in.beta2(), "beta2", &out->beta2) &&
         number(in.epsilon(), "epsilon", &out->epsilon) && number(in.rho(), "rho", &out->rho) &&
         number(in.lambda1(), "lambda1", &out->lambda1) && number(in.beta(), "beta", &out->beta) &&
         number(in.lower_bound(), "lower_bound", &out->lower_bound) &&
         number(in.upper_bound(), "upper_bound", &out->upper_bound) &&
         number(in.wd_lh(), "wd_lh", &out->wd_lh) && FromWire(in.schedule(), checker, &out->schedule);
}

}  // namespace

void ToWire(const SetOptimizer& in, pb::SetOptimizer* out) {
  ToWire(in.config, out->mutable_config());
  out->set_store(in.store);
  pb::FirstRound* run = nullptr;  // keys with consecutive ids and the same round share one entry
  for (const auto& [key, round] : in.first_rounds) {
    if (run != nullptr && round == run->round() && key == run->key() + run->more() + 1) {
      run->set_more(run->more() + 1);
      continue;
    }
    run = out->add_first_rounds();
    run->set_key(key);
    run->set_round(round);
  }
}

// Whether the fields of the configuration make sense together is checked later, by
// the optimiser's InvalidReason.
bool FromWire(const pb::SetOptimizer& in, Checker& checker, SetOptimizer* out) {
  size_t keys = 0;
  for (const pb::FirstRound& run : in.first_rounds()) {
    keys += size_t{run.more()} + 1;
    if (!checker.Count(keys, checker.limits().max_set_keys, "first rounds")) return false;
    for (uint64_t key = run.key(); key <= uint64_t{run.key()} + run.more() && key <= UINT32_MAX; ++key)
      out->first_rounds[static_cast<uint32_t>(key)] = run.round();
  }
  return checker.StoreNumber(in.store(), &out->store) && FromWire(in.config(), checker, &out->config);
}

}  // namespace sluice::wire
