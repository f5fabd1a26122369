// The host's loops over a formula, and the optimiser that calls them. Internal to optimizer/: each row of
// registry.cc makes one.
//
// Each loop is built for float and double and for several instruction sets, all with the same results.
// Optimisers are immutable; servers and stores call them on any thread, on disjoint elements at the same time
// (kvstore/update).
#pragma once

#include <algorithm>
#include <utility>

#include "base/simd.h"
#include "optimizer/formula_of.h"

namespace sluice {

// Formulas with two passes, Measure before Step.
template <typename Formula>
concept HasNorms = Formula::kNeedsNorms;

// Computes all elements. Two of the arrays may be the same, such as `out` and `weight`, but may not overlap
// at different elements. A formula with norms does not read `gradient`.
template <typename Formula, typename T, typename... Slots>
SLUICE_SIMD void StepAll(Formula formula, const T* weight, T* out, const T* gradient, size_t n,
                         Slots*... slots) {
  if constexpr (requires { formula.ChangesNothing(); }) {
    if (formula.ChangesNothing()) {
      for (size_t i = 0; i < n; ++i) out[i] = weight[i];
      return;
    }
  }
  if constexpr (HasNorms<Formula>) {
    SLUICE_INDEPENDENT
    for (size_t i = 0; i < n; ++i) out[i] = formula.Step(weight[i], slots[i]...);
  } else {
    SLUICE_INDEPENDENT
    for (size_t i = 0; i < n; ++i) out[i] = formula.Step(weight[i], gradient[i], slots[i]...);
  }
}

// Adds the sum of the squares of n elements, at most Optimizer::kMeasured, to `norm`. The order of additions
// is fixed, and one that vectorises.
template <typename T>
inline void AddSquares(const T* values, size_t n, double* norm) {
  constexpr size_t kLanes = 8;  // number of partial sums
  double lanes[kLanes] = {};
  const auto square = [values](size_t i) {
    return static_cast<double>(values[i]) * static_cast<double>(values[i]);
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += square(i + lane);
  for (size_t lane = 0; i + lane < n; ++lane) lanes[lane] += square(i + lane);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  *norm += sum;
}

// Measures all elements and adds to `norms`.
template <typename Formula, typename T, typename... Slots>
SLUICE_SIMD void MeasureAll(Formula formula, const T* weight, const T* gradient, size_t n,
                            Optimizer::Norms* norms, Slots*... slots) {
  T directions[Optimizer::kMeasured];
  for (size_t first = 0; first < n; first += Optimizer::kMeasured) {
    const size_t end = std::min(n, first + Optimizer::kMeasured);
    SLUICE_INDEPENDENT
    for (size_t i = first; i < end; ++i)
      directions[i - first] = formula.Measure(weight[i], gradient[i], slots[i]...);
    AddSquares(weight + first, end - first, &norms->weight);
    AddSquares(directions, end - first, &norms->direction);
  }
}

template <template <typename> typename Formula>
class FormulaOptimizer final : public Optimizer {
 public:
  explicit FormulaOptimizer(const OptimizerConfig& config) : Optimizer(config) {}

  std::span<const std::string_view> slot_names() const override { return Formula<float>::kSlots; }
  bool needs_norms() const override { return HasNorms<Formula<float>>; }

 protected:
  PreparedUpdate<float> PrepareFloat(const Step& step) const override { return Prepare<float>(step); }
  PreparedUpdate<double> PrepareDouble(const Step& step) const override { return Prepare<double>(step); }

 private:
  template <typename T>
  Formula<T> FormulaOf(const Step& step) const {
    return Formula<T>(FactorsOf(*this, step));
  }
  // Calls `use` with the index of each state, as a list of constants.
  template <typename Use>
  static void WithSlots(Use use) {
    use(std::make_index_sequence<Formula<float>::kSlots.size()>());
  }
  template <typename T>
  PreparedUpdate<T> Prepare(const Step& step) const {
    typename PreparedUpdate<T>::MeasureLoop* measure = nullptr;
    if constexpr (HasNorms<Formula<T>>) measure = RunMeasure<T>;
    return PreparedUpdate<T>(FormulaOf<T>(step), Run<T>, measure);
  }
  template <typename T>
  static void Run(const void* formula, const T* w, T* out, const T* g, T* const* slots, size_t n) {
    WithSlots([&]<size_t... s>(std::index_sequence<s...>) {
      StepAll(*static_cast<const Formula<T>*>(formula), w, out, g, n, slots[s]...);
    });
  }
  template <typename T>
  static void RunMeasure(const void* formula, const T* w, const T* g, T* const* slots, size_t n,
                         Norms* norms) {
    WithSlots([&]<size_t... s>(std::index_sequence<s...>) {
      MeasureAll(*static_cast<const Formula<T>*>(formula), w, g, n, norms, slots[s]...);
    });
  }
};

}  // namespace sluice
