// A loop other than the host's, as device code has it, computes the same bits with the formulas.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "optimizer/formula_of.h"

namespace sluice {
namespace {

constexpr size_t kElements = 131;
constexpr double kRate = 0.01;

OptimizerConfig ConfigOf(OptimizerKind kind, double momentum, bool centered) {
  OptimizerConfig config{.kind = kind, .learning_rate = kRate, .momentum = momentum, .wd = 0.01};
  config.clip_gradient = 0.5;
  config.centered = centered;
  config.wd_lh = 0.1;
  return Resolved(config);
}

template <typename T>
struct Arrays {
  std::vector<T> weight = std::vector<T>(kElements);
  std::array<std::vector<T>, 3> slots = {std::vector<T>(kElements), std::vector<T>(kElements),
                                         std::vector<T>(kElements)};

  Arrays() {
    for (size_t i = 0; i < kElements; ++i) weight[i] = 1 / static_cast<T>(i + 1);
  }
  bool operator==(const Arrays&) const = default;
};

// Calls the formula for one element after another, and for norms takes those that `optimizer` measured.
template <template <typename> typename Formula, typename T>
void UpdateOneByOne(const Optimizer& optimizer, const Optimizer::Step& step, const std::vector<T>& gradient,
                    Arrays<T>* a) {
  const Formula<T> formula({optimizer.config(), step, kRate});
  [&]<size_t... s>(std::index_sequence<s...>) {
    for (size_t i = 0; i < kElements; ++i) {
      if constexpr (requires { Formula<T>::kNeedsNorms; }) {
        formula.Measure(a->weight[i], gradient[i], a->slots[s][i]...);
        a->weight[i] = formula.Step(a->weight[i], a->slots[s][i]...);
      } else {
        a->weight[i] = formula.Step(a->weight[i], gradient[i], a->slots[s][i]...);
      }
    }
  }
  (std::make_index_sequence<Formula<T>::kSlots.size()>());
}

template <template <typename> typename Formula, typename T>
void ExpectSameBits(const OptimizerConfig& config) {
  const auto optimizer = Optimizer::Create(config);
  EXPECT_TRUE(std::ranges::equal(optimizer->slot_names(), Formula<T>::kSlots)) << Name(config.kind);
  Arrays<T> one_by_one, at_once;
  for (int64_t update = 1; update <= 5; ++update) {
    std::vector<T> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i)
      gradient[i] = static_cast<T>(static_cast<int64_t>(i * 37) % 101 - 50) / static_cast<T>(30 + update);
    Optimizer::Step step{.num_update = update, .grad_scale = 1.0 / 3};
    T* const slots[] = {at_once.slots[0].data(), at_once.slots[1].data(), at_once.slots[2].data()};
    T* const weight = at_once.weight.data();
    optimizer->PrepareUpdate<T>(step).Measure(weight, gradient.data(), slots, kElements, &step.norms);
    optimizer->PrepareUpdate<T>(step)(weight, weight, gradient.data(), slots, kElements);
    UpdateOneByOne<Formula>(*optimizer, step, gradient, &one_by_one);
    ASSERT_EQ(one_by_one, at_once) << Name(config.kind) << ", update " << update;
  }
}

TEST(Formulas, AnyLoopHasTheSameBits) {
  for (const std::string_view name : OptimizerNames()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool centered : {false, true}) {
        const OptimizerConfig config = ConfigOf(OptimizerKindOf(name).value(), momentum, centered);
        WithFormula(config, [&]<template <typename> typename Formula>() {
          ExpectSameBits<Formula, float>(config);
          ExpectSameBits<Formula, double>(config);
        });
      }
    }
  }
}

}  // namespace
}  // namespace sluice
