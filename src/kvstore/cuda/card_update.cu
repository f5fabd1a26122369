// Updates on a card: a thread computes elements by the optimiser's formula. The formula's factors are
// computed on the host and are an argument of the kernel. It owns nothing: sums of norms lie in the workspace
// of the stream. Invariants: one thread reads and writes an element with its states; an updated weight of 16
// bits that has a master is the master, rounded; nothing changes once an operation has found a bad input.
// update_array.cc calls it, in work on the stream.
#include <type_traits>

#include "base/check.h"
#include "kvstore/card_update.h"
#include "optimizer/formula_of.h"
#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/conversion.cuh"
#include "tensor/cuda/error.h"
#include "tensor/cuda/input_check.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::kvstore {
namespace {

using cuda::Computed;
using cuda::InputCheck;
using cuda::Load;
using cuda::Rounded;

constexpr size_t kMostStates = 3;  // without the master

// The arrays of an update, whose elements are of type T.
template <typename T>
struct Arrays {
  using Compute = Computed<T>;
  T* weight;
  const T* gradient;
  Compute* states[kMostStates];
  Compute* master;  // null: there is none
  InputCheck check;

  // The weight in the type that computes. A master replaces the weight as long as it rounds to it.
  __device__ Compute Weight(int64_t i) const {
    if constexpr (sizeof(T) == 2) {
      if (master != nullptr && SameBits(Rounded<T>(master[i]), weight[i])) return master[i];
    }
    return Load(weight[i]);
  }
  __device__ void Store(int64_t i, Compute value) const {
    if (master != nullptr) master[i] = value;
    weight[i] = Rounded<T>(value);
  }

 private:
  __device__ static bool SameBits(const T& a, const T& b) {
    return reinterpret_cast<const unsigned short&>(a) == reinterpret_cast<const unsigned short&>(b);
  }
};

// Calls step(states...) with element i of each of kCount states.
template <size_t kCount, typename Compute, typename Step>
__device__ Compute WithStates(Compute* const* states, int64_t i, Step&& step) {
  static_assert(kCount <= kMostStates);
  if constexpr (kCount == 0) return step();
  if constexpr (kCount == 1) return step(states[0][i]);
  if constexpr (kCount == 2) return step(states[0][i], states[1][i]);
  if constexpr (kCount == 3) return step(states[0][i], states[1][i], states[2][i]);
}

template <typename Formula>
concept HasNorms = Formula::kNeedsNorms;

template <typename Formula, typename T>
struct StepOp {
  Formula formula;
  Arrays<T> a;
  __device__ void operator()(int64_t i) const {
    using Compute = Computed<T>;
    if (cuda::HasFailed(a.check)) return;
    const Compute weight = a.Weight(i);
    if constexpr (requires { formula.ChangesNothing(); }) {
      if (formula.ChangesNothing()) return a.Store(i, weight);
    }
    a.Store(i, WithStates<Formula::kSlots.size()>(a.states, i, [&](auto&... states) -> Compute {
              if constexpr (HasNorms<Formula>) return formula.Step(weight, states...);
              if constexpr (!HasNorms<Formula>) return formula.Step(weight, Load(a.gradient[i]), states...);
            }));
  }
};

// The squares of an element and of its direction; also updates the states.
template <typename Formula, typename T>
struct MeasureTerm {
  Formula formula;
  Arrays<T> a;
  __device__ cuda::Pair operator()(int64_t i, int64_t) const {
    using Compute = Computed<T>;
    if (cuda::HasFailed(a.check)) return {0, 0};
    const Compute weight = a.Weight(i);
    const Compute direction = WithStates<Formula::kSlots.size()>(
        a.states, i,
        [&](auto&... states) -> Compute { return formula.Measure(weight, Load(a.gradient[i]), states...); });
    return {static_cast<double>(weight) * static_cast<double>(weight),
            static_cast<double>(direction) * static_cast<double>(direction)};
  }
};
struct StorePair {
  cuda::Pair* sums;
  __device__ void operator()(int64_t, const cuda::Pair& sum) const { *sums = sum; }
};

template <typename T>
struct AssignOp {
  Arrays<T> a;
  double scale;
  __device__ void operator()(int64_t i) const {
    if (cuda::HasFailed(a.check)) return;
    if constexpr (std::is_integral_v<T>) {
      a.weight[i] = a.gradient[i];
    } else {
      using Compute = Computed<T>;
      const Compute gradient = Load(a.gradient[i]);
      a.Store(i, scale == 1 ? gradient : static_cast<Compute>(static_cast<double>(gradient) * scale));
    }
  }
};

// Integers are accumulated; they wrap.
template <typename T>
struct AccumulateOp {
  Arrays<T> a;
  int64_t factor;
  __device__ void operator()(int64_t i) const {
    if (cuda::HasFailed(a.check)) return;
    const uint64_t added = static_cast<uint64_t>(factor) * static_cast<uint64_t>(a.gradient[i]) +
                           static_cast<uint64_t>(a.weight[i]);
    a.weight[i] = static_cast<T>(added);
  }
};

// Returns the norms' squares, for which the host waits.
template <typename Formula, typename T>
Optimizer::Norms Measure(cuda::CudaKernels& kernels, const Formula& formula, const Arrays<T>& arrays,
                         int64_t n) {
  Optimizer::Norms norms;
  if (n == 0) return norms;
  const size_t parts = cuda::PartsOfColumns(n, 1);
  auto* const memory = kernels.workspace().template Take<cuda::Pair>(parts + 1);
  cuda::SumColumns(kernels.stream(), memory, n, 1, MeasureTerm<Formula, T>{formula, arrays},
                   StorePair{memory + parts});
  double sums[2] = {};
  cuda::Require(cudaMemcpyAsync(sums, memory + parts, sizeof sums, cudaMemcpyDefault, kernels.stream()),
                "cudaMemcpyAsync of norms");
  cuda::Require(cudaStreamSynchronize(kernels.stream()), "cudaStreamSynchronize");
  norms.weight = sums[0];
  norms.direction = sums[1];
  return norms;
}

template <typename T>
void Update(cuda::CudaKernels& kernels, const CardUpdate& update, const Arrays<T>& arrays) {
  const auto for_each = [&](auto op) { cuda::ForEach(kernels.stream(), update.n, op); };
  if (update.optimizer == nullptr) return for_each(AssignOp<T>{arrays, update.scale});
  if constexpr (std::is_integral_v<T>) {
    for_each(AccumulateOp<T>{arrays, static_cast<int64_t>(update.optimizer->config().rescale_grad)});
  } else {
    Optimizer::Step step = update.step;
    WithFormula(update.optimizer->config(), [&]<template <typename> typename Formula>() {
      using Of = Formula<Computed<T>>;
      if constexpr (HasNorms<Of>)
        step.norms = Measure(kernels, Of(FactorsOf(*update.optimizer, step)), arrays, update.n);
      for_each(StepOp<Of, T>{Of(FactorsOf(*update.optimizer, step)), arrays});
    });
  }
}

}  // namespace

void UpdateOnCard(Kernels& any, const CardUpdate& update) {
  auto* const kernels = dynamic_cast<cuda::CudaKernels*>(&any);
  SLUICE_CHECK(kernels != nullptr) << "an array on a card is updated by the kernels of another device";
  cuda::WithType(update.dtype, [&]<typename T>(T) {
    Arrays<T> arrays{.weight = static_cast<T*>(update.weight),
                     .gradient = static_cast<const T*>(update.gradient),
                     .states = {},
                     .master = nullptr,
                     .check = kernels->Check()};
    const size_t own = update.optimizer == nullptr ? 0 : update.optimizer->slot_names().size();
    for (size_t i = 0; i < update.states.size(); ++i) {
      auto* const state = static_cast<Computed<T>*>(update.states[i]);
      (i < own ? arrays.states[i] : arrays.master) = state;
    }
    Update(*kernels, update, arrays);
  });
}

}  // namespace sluice::kvstore
