// Tests OptimizerConfig and the registry: defaults as MXNet has them, refusals that name field and value, and
// the edges of each formula. golden_test compares whole runs.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "sluice/error.h"
#include "sluice/optimizer.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string InvalidReasonWith(const std::function<void(OptimizerConfig&)>& change) {
  OptimizerConfig config;
  change(config);
  return InvalidReason(config);
}

std::vector<OptimizerKind> AllKinds() {
  std::vector<OptimizerKind> kinds;
  for (const std::string_view name : OptimizerNames()) kinds.push_back(OptimizerKindOf(name).value());
  return kinds;
}

TEST(OptimizerKind, IsKnownByItsName) {
  EXPECT_THAT(OptimizerNames(), ::testing::ElementsAre("sgd", "nag", "adam", "accumulate", "adamw", "adagrad",
                                                       "rmsprop", "ftrl", "lamb", "signum", "delayed_nag"));
  for (const OptimizerKind kind : AllKinds()) EXPECT_EQ(OptimizerKindOf(Name(kind)), kind);
  EXPECT_EQ(OptimizerKindOf("rmsprop"), OptimizerKind::kRmsProp);
  EXPECT_EQ(OptimizerKindOf("Adam"), std::nullopt);
  EXPECT_EQ(Name(static_cast<OptimizerKind>(200)), "unknown");
}

TEST(OptimizerConfig, SoundOnesAreAccepted) {
  for (const OptimizerKind kind : AllKinds()) {
    EXPECT_THAT(InvalidReasonWith([&](OptimizerConfig& c) { c.kind = kind; }), IsEmpty());
  }
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) {
                c.learning_rate = c.epsilon = 0;
                c.wd = c.beta1 = c.beta2 = 0;
                c.clip_gradient = -1;
                c.rescale_grad = -2;
                c.multipliers["w"] = {.lr_mult = -1, .wd_mult = 0};
                c.schedule.steps = {3, 3, 9};
                c.schedule.warmup_steps = 1'000'000'000;  // a constant rate has no last update
              }),
              IsEmpty());
}

struct Field {
  const char* name;
  std::function<void(OptimizerConfig&, double)> set;
  std::vector<double> bad;
};

template <typename T>
auto Setter(T OptimizerConfig::*field) {
  return [field](OptimizerConfig& config, double value) { config.*field = value; };
}

TEST(OptimizerConfig, ABadFieldIsNamedWithItsValue) {
  const std::vector<double> negative = {-0.5, kNan, kInfinity}, endless = {kNan, kInfinity, -kInfinity},
                            share = {-0.1, 1.0, 1.5, kNan};
  const Field fields[] = {{"learning_rate", Setter(&OptimizerConfig::learning_rate), negative},
                          {"momentum", Setter(&OptimizerConfig::momentum), share},
                          {"wd", Setter(&OptimizerConfig::wd), negative},
                          {"clip_gradient", Setter(&OptimizerConfig::clip_gradient), endless},
                          {"rescale_grad", Setter(&OptimizerConfig::rescale_grad), endless},
                          {"beta1", Setter(&OptimizerConfig::beta1), share},
                          {"beta2", Setter(&OptimizerConfig::beta2), share},
                          {"epsilon", Setter(&OptimizerConfig::epsilon), negative},
                          {"rho", Setter(&OptimizerConfig::rho), share},
                          {"lambda1", Setter(&OptimizerConfig::lambda1), negative},
                          {"beta", Setter(&OptimizerConfig::beta), negative},
                          {"lower_bound", Setter(&OptimizerConfig::lower_bound), negative},
                          {"upper_bound", Setter(&OptimizerConfig::upper_bound), negative},
                          {"wd_lh", Setter(&OptimizerConfig::wd_lh), negative}};
  for (const Field& field : fields) {
    for (const double value : field.bad) {
      std::ostringstream text;
      text << field.name << " is " << value;
      EXPECT_THAT(InvalidReasonWith([&](OptimizerConfig& c) { field.set(c, value); }), HasSubstr(text.str()));
    }
  }
}

// python/mxnet/optimizer/{sgd,nag,adam,adamW,adagrad,rmsprop,ftrl,lamb,signum}.py of Apache MXNet 2.0, the
// arguments of each __init__.
TEST(OptimizerConfig, WhatIsNotSetIsAsInMxnet) {
  struct Defaults {
    const char* name;
    double learning_rate;
    std::optional<double> momentum, epsilon;  // where MXNet's has the argument
  };
  for (const auto& [name, learning_rate, momentum, epsilon] :
       {Defaults{"sgd", 0.1, 0.0, {}}, Defaults{"nag", 0.1, 0.9, {}}, Defaults{"adam", 0.001, {}, 1e-8},
        Defaults{"adamw", 0.001, {}, 1e-6}, Defaults{"adagrad", 0.01, {}, 1e-6},
        Defaults{"rmsprop", 0.001, 0.9, 1e-8}, Defaults{"ftrl", 0.1, {}, {}},
        Defaults{"lamb", 0.001, {}, 1e-6}, Defaults{"signum", 0.01, 0.9, {}}}) {
    SCOPED_TRACE(name);
    const OptimizerKind kind = OptimizerKindOf(name).value();
    const OptimizerConfig config = Resolved({.kind = kind});
    EXPECT_EQ(config.learning_rate, learning_rate);
    EXPECT_EQ(ReadsMomentum(kind), momentum.has_value());
    EXPECT_EQ(config.momentum, momentum.value_or(0));
    EXPECT_EQ(config.epsilon, epsilon.value_or(1e-8));
    EXPECT_EQ(config.beta1, 0.9);  // these are the same for all that have them
    EXPECT_EQ(config.beta2, 0.999);
    EXPECT_EQ(config.rho, 0.9);
    EXPECT_EQ(config.lambda1, 0.01);
    EXPECT_EQ(config.beta, 1);
    EXPECT_EQ(config.wd, 0);
    EXPECT_EQ(config.wd_lh, 0);
    EXPECT_FALSE(config.centered);
    EXPECT_EQ(Optimizer::Create({.kind = kind})->config(), config);
    EXPECT_EQ(Optimizer::Create({.kind = kind})->LearningRate(1), learning_rate);
  }
}

TEST(OptimizerConfig, WhatIsNotSetConvergesInAsyncStores) {
  const auto rate = [](OptimizerKind kind, int workers) {
    return ResolvedForAsync({.kind = kind}, workers).learning_rate;
  };
  using enum OptimizerKind;
  for (const OptimizerKind kind : AllKinds()) {
    EXPECT_EQ(ResolvedForAsync({.kind = kind}, 1), Resolved({.kind = kind}));
    EXPECT_EQ(ResolvedForAsync({.kind = kind}, 2).momentum, kind == kDelayedNag ? 0.9 : 0);
    const OptimizerConfig all{.kind = kind, .learning_rate = 0.25, .momentum = 0.5, .epsilon = 0.5};
    EXPECT_EQ(ResolvedForAsync(all, 8), all);
    EXPECT_EQ(rate(kind, 3), Resolved({.kind = kind}).learning_rate);
  }
  EXPECT_DOUBLE_EQ(rate(kNag, 4), 0.075);
  EXPECT_DOUBLE_EQ(rate(kSgd, 12), 0.025);
  EXPECT_DOUBLE_EQ(rate(kAdam, 4), 0.001);
  EXPECT_DOUBLE_EQ(rate(kSignum, 8), 0.005);
  EXPECT_EQ(rate(kDelayedNag, 8), 0.1);
  EXPECT_EQ(rate(kAccumulate, 8), Resolved({.kind = kAccumulate}).learning_rate);
}

TEST(OptimizerConfig, ItIsSaidWhatMayDivergeInAsyncStores) {
  const auto why = [](OptimizerConfig config, int workers) { return DivergenceReason(config, workers); };
  using enum OptimizerKind;
  EXPECT_THAT(why({.kind = kNag, .momentum = 0.9}, 2),
              HasSubstr("2 workers, learning rate 0.1 and momentum 0.9"));
  EXPECT_NE(why({.learning_rate = 0.25, .momentum = 0}, 2), "");
  EXPECT_EQ(why({.learning_rate = 0.2, .momentum = 0}, 2), "");
  EXPECT_NE(why({.learning_rate = 0.2, .momentum = 0}, 4), "");
  EXPECT_EQ(why({.kind = kNag, .momentum = 0.9}, 1), "") << "one worker has no delay";
  EXPECT_EQ(why({.kind = kRmsProp, .learning_rate = 0.5, .momentum = 0.9}, 8), "") << "its steps are bounded";
  EXPECT_EQ(why({.momentum = 1}, 2), "") << "it is refused";
  for (const OptimizerKind kind : AllKinds())
    for (const int workers : {1, 2, 3, 8, 100}) EXPECT_EQ(why({.kind = kind}, workers), "") << Name(kind);
}

TEST(OptimizerConfig, WhatIsSetStays) {
  for (const OptimizerKind kind : AllKinds()) {
    const OptimizerConfig all{.kind = kind, .learning_rate = 0.25, .momentum = 0, .epsilon = 0.5};
    EXPECT_EQ(Resolved(all), all);
    const OptimizerConfig rate{.kind = kind, .learning_rate = 0};
    EXPECT_EQ(Resolved(rate).learning_rate, 0);
    EXPECT_EQ(Resolved(rate).momentum, Resolved({.kind = kind}).momentum);
    EXPECT_EQ(Resolved(Resolved(rate)), Resolved(rate));
  }
}

TEST(OptimizerConfig, ABadScheduleFieldIsNamed) {
  const auto why = [](const std::function<void(LrSchedule&)>& change) {
    return InvalidReasonWith([&](OptimizerConfig& c) { change(c.schedule); });
  };
  for (const double value : {-1.0, kNan, kInfinity}) {
    EXPECT_THAT(why([&](LrSchedule& s) { s.factor = value; }), HasSubstr("schedule.factor is "));
    EXPECT_THAT(why([&](LrSchedule& s) { s.stop_factor_lr = value; }),
                HasSubstr("schedule.stop_factor_lr is "));
    EXPECT_THAT(why([&](LrSchedule& s) { s.final_lr = value; }), HasSubstr("schedule.final_lr is "));
    EXPECT_THAT(why([&](LrSchedule& s) { s.power = value; }), HasSubstr("schedule.power is "));
    EXPECT_THAT(why([&](LrSchedule& s) { s.warmup_begin_lr = value; }),
                HasSubstr("schedule.warmup_begin_lr is "));
  }
  EXPECT_THAT(why([](LrSchedule& s) { s.step = 0; }), HasSubstr("schedule.step is 0"));
  EXPECT_THAT(why([](LrSchedule& s) { s.max_update = 0; }), HasSubstr("schedule.max_update is 0"));
  EXPECT_THAT(why([](LrSchedule& s) { s.warmup_steps = -1; }), HasSubstr("schedule.warmup_steps is -1"));
  EXPECT_THAT(why([](LrSchedule& s) { s.steps = {5, 4}; }), HasSubstr("schedule.steps must ascend: 5, 4"));
  EXPECT_THAT(why([](LrSchedule& s) { s.steps = {-1, 4}; }), HasSubstr("schedule.steps begins with -1, 4"));
  EXPECT_THAT(why([](LrSchedule& s) { s.steps = {0, 4}; }), IsEmpty());
  for (const auto kind : {LrScheduleKind::kPoly, LrScheduleKind::kCosine}) {
    EXPECT_THAT(why([&](LrSchedule& s) { s.kind = kind, s.max_update = 10, s.warmup_steps = 10; }),
                AllOf(HasSubstr("schedule.warmup_steps is 10"), HasSubstr("max_update is 10")));
    EXPECT_THAT(why([&](LrSchedule& s) { s.kind = kind, s.max_update = 10, s.warmup_steps = 9; }), IsEmpty());
  }
}

TEST(OptimizerConfig, BoundsThatCrossAreRefused) {
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.lower_bound = 2, c.upper_bound = 1; }),
              AllOf(HasSubstr("lower_bound is 2"), HasSubstr("upper_bound is 1")));
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.lower_bound = 2; }), IsEmpty());
}

TEST(OptimizerConfig, ABadMultiplierIsNamedWithItsKey) {
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.multipliers["fc1.weight"].lr_mult = kNan; }),
              HasSubstr("lr_mult of fc1.weight is nan"));
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.multipliers["7"].wd_mult = kInfinity; }),
              HasSubstr("wd_mult of 7 is inf"));
}

// Enumerations come over the network as numbers.
TEST(OptimizerConfig, UnknownKindsAreRefused) {
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.kind = static_cast<OptimizerKind>(200); }),
              HasSubstr("kind 200 is unknown"));
  EXPECT_THAT(InvalidReasonWith([](OptimizerConfig& c) { c.schedule.kind = static_cast<LrScheduleKind>(8); }),
              HasSubstr("schedule kind 8 is unknown"));
  EXPECT_THAT(
      InvalidReasonWith([](OptimizerConfig& c) { c.schedule.warmup_mode = static_cast<WarmupMode>(7); }),
      HasSubstr("warmup_mode 7 is unknown"));
}

TEST(OptimizerConfig, CreateThrowsWhatIsWrong) {
  OptimizerConfig config;
  config.momentum = 1;
  try {
    Optimizer::Create(config);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.what(), InvalidReason(config));
  }
}

TEST(Optimizer, NamesItsStates) {
  const auto names = [](OptimizerKind kind, double momentum, bool centered = false) {
    OptimizerConfig config;
    config.centered = centered;
    config.kind = kind;
    config.momentum = momentum;
    const auto optimizer = Optimizer::Create(config);
    return std::vector<std::string_view>(optimizer->slot_names().begin(), optimizer->slot_names().end());
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(names(OptimizerKind::kSgd, 0), IsEmpty());
  EXPECT_THAT(names(OptimizerKind::kSgd, 0.9), ElementsAre("momentum"));
  EXPECT_THAT(names(OptimizerKind::kNag, 0), ElementsAre("momentum"));
  EXPECT_THAT(names(OptimizerKind::kAdam, 0), ElementsAre("mean", "variance"));
  EXPECT_THAT(names(OptimizerKind::kAccumulate, 0.9), IsEmpty());
  EXPECT_THAT(names(OptimizerKind::kAdamW, 0.9), ElementsAre("mean", "variance"));
  EXPECT_THAT(names(OptimizerKind::kAdaGrad, 0.9), ElementsAre("history"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, 0), ElementsAre("square"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, 0.9), ElementsAre("square", "momentum"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, 0, true), ElementsAre("square", "mean"));
  EXPECT_THAT(names(OptimizerKind::kRmsProp, 0.9, true), ElementsAre("square", "mean", "momentum"));
  EXPECT_THAT(names(OptimizerKind::kFtrl, 0.9), ElementsAre("z", "n"));
  EXPECT_THAT(names(OptimizerKind::kLamb, 0.9), ElementsAre("mean", "variance"));
  EXPECT_THAT(names(OptimizerKind::kDelayedNag, 0), ElementsAre("momentum", "gathered"));
  EXPECT_THAT(names(OptimizerKind::kSignum, 0), IsEmpty());
  EXPECT_THAT(names(OptimizerKind::kSignum, 0.9), ElementsAre("average"));
}

// Steps leave other memory alone, and cutting the elements into calls changes no bit; Measure's sums need
// cuts at multiples of kMeasured.
TEST(Optimizer, AnElementsResultDoesNotDependOnTheCut) {
  constexpr size_t n = 331;
  for (const OptimizerKind kind : AllKinds()) {
    OptimizerConfig config;
    config.kind = kind;
    config.momentum = 0.9;
    config.wd = 0.1;
    config.centered = true;
    const auto optimizer = Optimizer::Create(config);
    std::vector<float> weight(n), gradient(n), whole(n), cut(n, -1);
    for (size_t i = 0; i < n; ++i) {
      weight[i] = 1.0f / static_cast<float>(i + 1);
      gradient[i] = 0.1f * static_cast<float>(i) - 3;
    }
    std::vector<float> a(3 * n), b(3 * n);
    const auto slots_from = [](std::vector<float>& states, size_t first) {
      return std::array{states.data() + first, states.data() + n + first, states.data() + 2 * n + first};
    };
    Optimizer::Step step;
    Optimizer::Norms cut_norms;
    const auto measured = optimizer->PrepareUpdate<float>(step);
    measured.Measure(weight.data(), gradient.data(), slots_from(a, 0).data(), n, &step.norms);
    for (size_t first = 0, length = 128; first < n; first += length, length = Optimizer::kMeasured) {
      measured.Measure(weight.data() + first, gradient.data() + first, slots_from(b, first).data(),
                       std::min(length, n - first), &cut_norms);
    }
    EXPECT_EQ(step.norms.weight, cut_norms.weight);
    EXPECT_EQ(step.norms.direction, cut_norms.direction);
    const auto update = optimizer->PrepareUpdate<float>(step);
    update(weight.data(), whole.data(), gradient.data(), slots_from(a, 0).data(), n);
    for (size_t first = 0, length = 1; first < n; first += length, length = length % 19 + 3) {
      update(weight.data() + first, cut.data() + first, gradient.data() + first, slots_from(b, first).data(),
             std::min(length, n - first));
    }
    EXPECT_EQ(whole, cut) << Name(kind);
    EXPECT_EQ(a, b) << Name(kind);
  }
}

TEST(Optimizer, TheElementBehindTheLastIsLeftAlone) {
  for (const OptimizerKind kind : AllKinds()) {
    for (const double momentum : {0.0, 0.9}) {
      const auto optimizer = Optimizer::Create({.kind = kind, .momentum = momentum});
      for (const size_t n : {1, 5, 16, 35}) {
        std::vector<float> weight(n + 1, 1), out(n + 1, 7), gradient(n + 1, 3);
        std::vector<std::vector<float>> states(3, std::vector<float>(n + 1, 0.5f));
        float* const slots[] = {states[0].data(), states[1].data(), states[2].data()};
        Optimizer::Step step;
        optimizer->PrepareUpdate<float>(step).Measure(weight.data(), gradient.data(), slots, n, &step.norms);
        optimizer->PrepareUpdate<float>(step)(weight.data(), out.data(), gradient.data(), slots, n);
        EXPECT_EQ(out.back(), 7) << Name(kind);
        for (const auto& state : states) EXPECT_EQ(state.back(), 0.5f) << Name(kind);
      }
    }
  }
}

float StepFrom(const OptimizerConfig& config, float weight, float gradient,
               std::vector<float> states = {0, 0}) {
  const auto optimizer = Optimizer::Create(config);
  float* const slots[] = {&states[0], &states[1]};
  Optimizer::Step step;
  optimizer->PrepareUpdate<float>(step).Measure(&weight, &gradient, slots, 1, &step.norms);
  optimizer->PrepareUpdate<float>(step)(&weight, &weight, &gradient, slots, 1);
  return weight;
}

TEST(Lamb, AnArrayOfZerosTakesAdamsStep) {
  const OptimizerConfig config{.kind = OptimizerKind::kLamb, .learning_rate = 0.5};
  EXPECT_NEAR(StepFrom(config, 0, 3), -0.5, 1e-6);
  EXPECT_EQ(StepFrom(config, 2, 0), 2);  // no direction: no step
}

// w - rate (sign(g) + wd_lh w), with the mean of g where there is momentum.
TEST(Signum, AGradientOfZeroHasNoSign) {
  const OptimizerConfig plain{
      .kind = OptimizerKind::kSignum, .learning_rate = 0.5, .momentum = 0, .wd_lh = 0.1};
  EXPECT_FLOAT_EQ(StepFrom(plain, 2, 3), 2 - 0.5f * (1 + 0.2f));
  EXPECT_FLOAT_EQ(StepFrom(plain, 2, 0), 2 - 0.5f * 0.2f);
  EXPECT_FLOAT_EQ(StepFrom(plain, 2, -3), 2 - 0.5f * (-1 + 0.2f));
  EXPECT_EQ(StepFrom({.kind = OptimizerKind::kSignum, .learning_rate = 0.5, .momentum = 0.9}, 2, 0), 2);
}

TEST(Ftrl, ARateOfZeroChangesNothing) {
  EXPECT_EQ(StepFrom({.kind = OptimizerKind::kFtrl, .learning_rate = 0}, 3, 1), 3);
}

// States that stand for another weight: at z = 0 and n = 0 it is 0.
TEST(Ftrl, AGradientOfZeroLeavesAnyWeight) {
  const OptimizerConfig config{.kind = OptimizerKind::kFtrl, .wd = 0.1};
  for (const float weight : {3.0f, -0.25f, 0.0f}) {
    EXPECT_FLOAT_EQ(StepFrom(config, weight, 0), weight);
    EXPECT_FLOAT_EQ(StepFrom(config, weight, 0, {-5, 2}), weight);
    EXPECT_FLOAT_EQ(StepFrom(config, weight, 0, {static_cast<float>(kNan), 2}), weight);
    EXPECT_FLOAT_EQ(StepFrom({.kind = OptimizerKind::kFtrl, .beta = 0}, weight, 0), weight);
  }
}

TEST(Ftrl, WhatIsNoNumberShows) {
  EXPECT_TRUE(std::isnan(StepFrom({.kind = OptimizerKind::kFtrl}, 3, static_cast<float>(kNan))));
}

// n - m^2 of equal gradients is 0, and in float32 often a little less.
TEST(RmsProp, AVarianceThatRoundsBelowZeroIsZero) {
  const OptimizerConfig config{.kind = OptimizerKind::kRmsProp,
                               .learning_rate = 0.5,
                               .momentum = 0,
                               .epsilon = 0.25,
                               .rho = 0.5,
                               .centered = true};
  const float g = 1000.1f;
  EXPECT_NEAR(StepFrom(config, 0, g, {std::nextafter(g * g, 0.0f), g}), -0.5 * g / 0.5, 1e-3);
}

}  // namespace
}  // namespace sluice
