#include "optimizer.pb.h"
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

void ToWire(const OptimizerConfig& in, pb::Optimizer* out) {
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
  for (const auto& [key, multiplier] : in.multipliers) {
    pb::Optimizer::Multiplier* m = out->add_multipliers();
    m->set_key(key);
    m->set_lr_mult(multiplier.lr_mult);
    m->set_wd_mult(multiplier.wd_mult);
  }
}

bool FromWire(const pb::Optimizer& in, Checker& checker, OptimizerConfig* out) {
  if (in.normalize() != pb::Optimizer::NORMALIZE_BY_DIVISOR &&
      in.normalize() != pb::Optimizer::NORMALIZE_BY_SAMPLES) {
    return checker.Refuse("the normalisation is ", static_cast<int>(in.normalize()));
  }
  out->learning_rate = in.learning_rate();
  out->momentum = in.momentum();
  out->wd = in.wd();
  out->clip_gradient = in.clip_gradient();
  out->rescale_grad = in.rescale_grad();
  out->beta1 = in.beta1();
  out->beta2 = in.beta2();
  out->epsilon = in.epsilon();
  out->normalize_by_samples = in.normalize() == pb::Optimizer::NORMALIZE_BY_SAMPLES;
  if (!checker.Count(in.multipliers_size(), checker.limits().max_keys, "multipliers")) return false;
  for (const pb::Optimizer::Multiplier& m : in.multipliers()) {
    std::string key;
    if (!checker.Text(m.key(), "key name", &key) || !checker.Finite(m.lr_mult(), "lr_mult") ||
        !checker.Finite(m.wd_mult(), "wd_mult")) {
      return false;
    }
    if (!out->multipliers.emplace(std::move(key), LrWdMultiplier{m.lr_mult(), m.wd_mult()}).second) {
      return checker.Refuse("key '", m.key(), "' has two multipliers");
    }
  }
  return checker.Enum(in.kind(), OptimizerKind::kAccumulate, "optimizer", &out->kind) &&
         checker.Finite(out->learning_rate, "learning_rate") && checker.Finite(out->momentum, "momentum") &&
         checker.Finite(out->wd, "wd") && checker.Finite(out->clip_gradient, "clip_gradient") &&
         checker.Finite(out->rescale_grad, "rescale_grad") && checker.Finite(out->beta1, "beta1") &&
         checker.Finite(out->beta2, "beta2") && checker.Finite(out->epsilon, "epsilon") &&
         FromWire(in.schedule(), checker, &out->schedule);
}

}  // namespace

void ToWire(const SetOptimizer& in, pb::SetOptimizer* out) {
  ToWire(in.config, out->mutable_config());
  for (const auto& [key, round] : in.first_rounds) {
    pb::FirstRound* first = out->add_first_rounds();
    first->set_key(key);
    first->set_round(round);
  }
}

// Whether the fields make sense together, the optimizer itself says (WhyInvalid).
bool FromWire(const pb::SetOptimizer& in, Checker& checker, SetOptimizer* out) {
  if (!checker.Count(static_cast<size_t>(in.first_rounds_size()), checker.limits().max_keys, "first rounds"))
    return false;
  for (const pb::FirstRound& first : in.first_rounds()) out->first_rounds[first.key()] = first.round();
  return FromWire(in.config(), checker, &out->config);
}

}  // namespace sluice::wire
