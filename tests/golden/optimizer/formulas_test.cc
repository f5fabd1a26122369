// Trajectories of a hundred updates through a store's update pass, in every type that weights are stored in.
#include "golden/optimizer/formulas.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/strings.h"
#include "kvstore/update/update.h"
#include "optimizer/schedule.h"
#include "tensor/types/half.h"

namespace sluice {
namespace {

constexpr int64_t kUpdates = 100;
constexpr size_t kElements = 67;  // no multiple of a vector's width
constexpr double kScale = 1.0 / 3;

double ToDouble(float value) {
  return value;
}
double ToDouble(double value) {
  return value;
}
double ToDouble(Half value) {
  return ToFloat(value);
}
double ToDouble(BFloat16 value) {
  return ToFloat(value);
}
template <typename T>
T Stored(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return HalfFromFloat(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16FromFloat(value);
  } else {
    return value;
  }
}

std::map<std::string, OptimizerConfig> Configs() {
  OptimizerConfig sgd;
  sgd.learning_rate = 0.05;
  OptimizerConfig rich = sgd;
  rich.momentum = 0.9;
  rich.wd = 0.01;
  rich.clip_gradient = 0.5;
  rich.rescale_grad = 1.5;
  rich.multipliers["w"] = {.lr_mult = 0.5, .wd_mult = 3};
  rich.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 20};
  rich.schedule.warmup_steps = 10;
  std::map<std::string, OptimizerConfig> configs = {{"sgd", sgd}, {"sgd rich", rich}};
  sgd.momentum = 0.9;
  configs["sgd momentum"] = sgd;
  sgd.kind = rich.kind = OptimizerKind::kNag;
  configs["nag"] = sgd;
  configs["nag rich"] = rich;
  sgd.kind = rich.kind = OptimizerKind::kAdam;
  sgd.learning_rate = rich.learning_rate = 0.01;
  configs["adam"] = sgd;
  configs["adam rich"] = rich;
  sgd.kind = rich.kind = OptimizerKind::kAccumulate;
  configs["accumulate"] = sgd;
  configs["accumulate rich"] = rich;
  for (const std::string_view name : OptimizerNames()) {
    const OptimizerKind kind = OptimizerKindOf(name).value();
    if (configs.contains(std::string(name))) continue;  // those above
    sgd.kind = rich.kind = kind;
    sgd.momentum = 0;
    // A power of two, because steps that are all alike round the same way each time, if they round.
    sgd.learning_rate = rich.learning_rate = 0x1p-7;
    configs[std::string(name)] = sgd;
    configs[StrCat(name, " rich")] = rich;
  }
  rich.kind = sgd.kind = OptimizerKind::kRmsProp;
  sgd.centered = rich.centered = true;
  rich.epsilon = 0.01;
  configs["rmsprop centered"] = sgd;
  configs["rmsprop centered rich"] = rich;
  rich.kind = OptimizerKind::kLamb;
  rich.lower_bound = rich.upper_bound = 3;
  configs["lamb bounded"] = rich;
  rich.kind = OptimizerKind::kSignum;
  rich.wd_lh = 0.1;
  configs["signum decoupled"] = rich;
  rich.kind = OptimizerKind::kFtrl;
  rich.lambda1 = 0.5;
  rich.beta = 0.25;
  configs["ftrl sparse"] = rich;
  return configs;
}

// A key of one part beside its reference.
template <typename T>
class Run {
 public:
  Run(const OptimizerConfig& config, uint64_t seed)
      : rule_{.optimizer = Optimizer::Create(config), .updater = nullptr}, rng_(seed) {
    for (size_t i = 0; i < kElements; ++i) {
      weight_.push_back(Stored<T>(Random()));
      expected_.push_back({.weight = ToDouble(weight_.back())});
    }
    kvstore::FitStates(rule_.optimizer.get(), spec_.dtype, kElements, &states_);
  }

  void Update(int64_t update) {
    std::vector<T> gradient;
    for (size_t i = 0; i < kElements; ++i) gradient.push_back(Stored<T>(Random()));
    const compression::Encoded frame{reinterpret_cast<const std::byte*>(gradient.data())};
    auto* bytes = reinterpret_cast<std::byte*>(weight_.data());
    kvstore::UpdateInput input{.spec = &spec_,
                               .length = kElements,
                               .gradients = std::span(&frame, 1),
                               .scale = kScale,
                               .num_update = update,
                               .updates_per_step = per_step()};
    if (rule_.needs_norms()) {
      Optimizer::Norms norms;
      kvstore::MeasurePart(rule_, input, bytes, states_.arrays, &norms);
      input.norms = norms;
    }
    kvstore::UpdatePart(rule_, input, bytes, bytes, states_.arrays);
    Follow(update, gradient);
  }

  double weight(size_t i) const { return ToDouble(weight_[i]); }
  reference::Element& expected(size_t i) { return expected_[i]; }

 private:
  void Follow(int64_t update, const std::vector<T>& gradient) {
    const OptimizerConfig& config = rule_.optimizer->config();
    const LrWdMultiplier mult =
        config.multipliers.contains("w") ? config.multipliers.at("w") : LrWdMultiplier{};
    const double rate =
        LearningRateAt(config.schedule, config.learning_rate, (update - 1) / per_step() + 1) * mult.lr_mult;
    std::vector<double> exact;
    for (const T g : gradient) exact.push_back(ToDouble(g));
    const double rounding = config.multi_precision || sizeof(T) > 2 ? 1e-12
                            : std::is_same_v<T, Half>               ? 0x1p-11
                                                                    : 0x1p-8;
    reference::UpdateArray(config, {rate, update, per_step(), kScale, mult.wd_mult, rounding}, exact,
                           expected_);
  }
  int64_t per_step() const { return rule_.optimizer->config().kind == OptimizerKind::kDelayedNag ? 3 : 1; }
  float Random() { return static_cast<float>(rng_.Normal()); }

  const kvstore::UpdateRule rule_;
  const wire::KeySpec spec_{std::string("w"), DTypeOf<T>::value, Shape{kElements}};
  Rng rng_;
  std::vector<T> weight_;
  std::vector<reference::Element> expected_;
  kvstore::States states_;
};

template <typename T>
void ExpectTrajectory(double tolerance) {
  for (const auto& [name, config] : Configs()) {
    Run<T> run(config, 11);
    std::vector<double> largest(kElements, 1.0);
    for (int64_t update = 1; update <= kUpdates; ++update) {
      run.Update(update);
      for (size_t i = 0; i < kElements; ++i) {
        const double expected = run.expected(i).weight;
        // Relative to what the element was summed from: it may have come back to zero.
        largest[i] = std::max(largest[i], std::abs(expected));
        // ftrl makes its z anew, and rounds it once more, wherever the rate has changed.
        const double share = config.kind == OptimizerKind::kFtrl ? 2 : 1;
        ASSERT_NEAR(run.weight(i), expected, share * tolerance * largest[i])
            << name << ", element " << i << ", update " << update;
      }
    }
  }
}

// Each stored weight must be the nearest 16-bit number to the exact update of the one before. The reference
// goes on from what is stored: rounding is part of the trajectory.
template <typename T>
void ExpectNearest(int mantissa_bits) {
  for (const auto& [name, config] : Configs()) {
    Run<T> run(config, 12);
    for (int64_t update = 1; update <= kUpdates; ++update) {
      run.Update(update);
      for (size_t i = 0; i < kElements; ++i) {
        const double exact = run.expected(i).weight;
        const double half_step = std::ldexp(0.5, std::max(std::ilogb(exact), -14) - mantissa_bits);
        ASSERT_NEAR(run.weight(i), exact, half_step + 1e-6 * std::max(1.0, std::abs(exact)))
            << name << ", element " << i << ", update " << update;
        run.expected(i).weight = run.weight(i);
      }
    }
  }
}

// With a master the trajectory is float32's, from the 16-bit weights and gradients; what is stored is its
// nearest 16-bit number.
template <typename T>
void ExpectMasterTrajectory(int mantissa_bits) {
  for (auto [name, config] : Configs()) {
    config.multi_precision = true;
    Run<T> run(config, 13);
    for (int64_t update = 1; update <= kUpdates; ++update) {
      run.Update(update);
      for (size_t i = 0; i < kElements; ++i) {
        const double exact = run.expected(i).weight;
        const double half_step = std::ldexp(0.5, std::max(std::ilogb(exact), -14) - mantissa_bits);
        ASSERT_NEAR(run.weight(i), exact, half_step + 1e-6 * std::max(1.0, std::abs(exact)))
            << name << ", element " << i << ", update " << update;
      }
    }
  }
}

TEST(Trajectory, Float16WithAMaster) {
  ExpectMasterTrajectory<Half>(10);
}
TEST(Trajectory, BFloat16WithAMaster) {
  ExpectMasterTrajectory<BFloat16>(7);
}

TEST(Trajectory, Float32) {
  ExpectTrajectory<float>(1e-6);
}
TEST(Trajectory, Float64) {
  ExpectTrajectory<double>(1e-13);
}
TEST(Trajectory, Float16) {
  ExpectNearest<Half>(10);
}
TEST(Trajectory, BFloat16) {
  ExpectNearest<BFloat16>(7);
}

}  // namespace
}  // namespace sluice
