// Updates on a card: a thread computes elements by the optimiser's formula. The formula's factors, computed
// on the host, and a table of arrays are arguments of the kernel, so that one launch updates many arrays. It
// owns nothing: sums of norms lie in the workspace of the stream. Invariants: one thread reads and writes an
// element with its states; an updated weight of 16 bits that has a master is the master, rounded; nothing
// changes once an operation has found a bad input. update_array.cc calls it, in work on the stream.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kvstore/card_update.h"
#include "optimizer/formula_of.h"
#include "tensor/cuda/add_up.cuh"
#include "tensor/cuda/array_chunks.cuh"
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
using cuda::kThreads;
using cuda::kUnroll;
using cuda::Rounded;

constexpr size_t kMostStates = 3;  // without the master
constexpr int kMostArrays = 36;    // a launch takes no more: its arguments have 4 KiB
// The elements of an array that a block updates together.
constexpr int64_t kChunk = int64_t{4} * kUnroll * kThreads;

// The arrays of an update, whose elements are of type T.
template <typename T>
struct Arrays {
  using Compute = Computed<T>;
  T* weight;
  const T* gradients[kMostGradients];  // null from the end of the list on
  Compute* states[kMostStates];
  Compute* master;         // null: there is none
  T* copies[kMostCopies];  // null: there is none

  // The sum of the gradients. `share`: 2^-CardUpdate::exponent.
  __device__ T Gradient(int64_t i, float share) const {
    int count = 1;
    while (count < static_cast<int>(kMostGradients) && gradients[count] != nullptr) ++count;
    return count == 1 ? gradients[0][i] : cuda::SumAt<T>(gradients, count, share, i);
  }
  // The weight in the type that computes. A master replaces the weight as long as it rounds to it.
  __device__ Compute Weight(int64_t i) const {
    if constexpr (sizeof(T) == 2) {
      if (master != nullptr && SameBits(Rounded<T>(master[i]), weight[i])) return master[i];
    }
    return cuda::Load(weight[i]);
  }
  __device__ void Store(int64_t i, Compute value) const {
    if (master != nullptr) master[i] = value;
    StoreRounded(i, Rounded<T>(value));
  }
  __device__ void StoreRounded(int64_t i, const T& value) const {
    weight[i] = value;
    for (T* const copy : copies)
      if (copy != nullptr) copy[i] = value;
  }

 private:
  __device__ static bool SameBits(const T& a, const T& b) {
    return reinterpret_cast<const unsigned short&>(a) == reinterpret_cast<const unsigned short&>(b);
  }
};

// The arrays of one launch.
template <typename T>
struct Table {
  cuda::ArrayChunks<kMostArrays> chunks;
  Arrays<T> arrays[kMostArrays];
  float share;  // the factor of Arrays::Gradient
  InputCheck check;
};

// Calls op.Store(arrays, i, op.Load(arrays, i, share)) for each element i of each array. A thread loads
// several elements before it stores one, as in map.cuh.
template <typename T, typename Op>
__global__ void UpdateKernel(const __grid_constant__ Table<T> table, Op op) {
  if (cuda::HasFailed(table.check)) return;
  for (int64_t chunk = blockIdx.x; chunk < table.chunks.count(); chunk += gridDim.x) {
    const auto [which, begin, end] = table.chunks.Get(chunk);
    const Arrays<T>& arrays = table.arrays[which];
    for (int64_t first = begin + threadIdx.x; first < end; first += kUnroll * kThreads) {
      typename Op::Element elements[kUnroll];
      for (int i = 0; i < kUnroll; ++i)
        if (first + i * kThreads < end) elements[i] = op.Load(arrays, first + i * kThreads, table.share);
      for (int i = 0; i < kUnroll; ++i)
        if (first + i * kThreads < end) op.Store(arrays, first + i * kThreads, elements[i]);
    }
  }
}

// An element of each of kCount states.
template <size_t kCount, typename Compute>
struct States {
  static_assert(kCount <= kMostStates);
  Compute values[kCount == 0 ? 1 : kCount];

  template <typename T>
  __device__ void Load(const Arrays<T>& a, int64_t i) {
    for (size_t s = 0; s != kCount; ++s) values[s] = a.states[s][i];
  }
  template <typename T>
  __device__ void Store(const Arrays<T>& a, int64_t i) const {
    for (size_t s = 0; s != kCount; ++s) a.states[s][i] = values[s];
  }
  // Calls step(values...), which may change them.
  template <typename Step>
  __device__ Compute Call(Step&& step) {
    if constexpr (kCount == 0) return step();
    if constexpr (kCount == 1) return step(values[0]);
    if constexpr (kCount == 2) return step(values[0], values[1]);
    if constexpr (kCount == 3) return step(values[0], values[1], values[2]);
  }
};

template <typename Formula>
concept HasNorms = Formula::kNeedsNorms;

template <typename Formula, typename T>
struct StepOp {
  using Compute = Computed<T>;
  struct Element {
    Compute weight, gradient;  // a formula with norms does not read the gradient
    States<Formula::kSlots.size(), Compute> states;
  };
  Formula formula;

  __device__ Element Load(const Arrays<T>& a, int64_t i, float share) const {
    Element element = {};
    element.weight = a.Weight(i);
    if constexpr (!HasNorms<Formula>) element.gradient = cuda::Load(a.Gradient(i, share));
    element.states.Load(a, i);
    return element;
  }
  __device__ void Store(const Arrays<T>& a, int64_t i, Element& element) const {
    if constexpr (requires { formula.ChangesNothing(); }) {
      if (formula.ChangesNothing()) return a.Store(i, element.weight);
    }
    a.Store(i, element.states.Call([&](auto&... states) -> Compute {
      if constexpr (HasNorms<Formula>) return formula.Step(element.weight, states...);
      if constexpr (!HasNorms<Formula>) return formula.Step(element.weight, element.gradient, states...);
    }));
    element.states.Store(a, i);
  }
};

// The squares of an element and of its direction; also updates the states.
template <typename Formula, typename T>
struct MeasureTerm {
  using Compute = Computed<T>;
  Formula formula;
  Arrays<T> a;
  float share;
  InputCheck check;
  __device__ cuda::Pair operator()(int64_t i, int64_t) const {
    if (cuda::HasFailed(check)) return {0, 0};
    const Compute weight = a.Weight(i);
    States<Formula::kSlots.size(), Compute> states;
    states.Load(a, i);
    const Compute direction = states.Call([&](auto&... values) -> Compute {
      return formula.Measure(weight, cuda::Load(a.Gradient(i, share)), values...);
    });
    states.Store(a, i);
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
  using Element = T;
  double scale;
  __device__ T Load(const Arrays<T>& a, int64_t i, float share) const { return a.Gradient(i, share); }
  __device__ void Store(const Arrays<T>& a, int64_t i, T gradient) const {
    if constexpr (std::is_integral_v<T>) {
      a.StoreRounded(i, gradient);
    } else {
      using Compute = Computed<T>;
      const Compute value = cuda::Load(gradient);
      a.Store(i, scale == 1 ? value : static_cast<Compute>(static_cast<double>(value) * scale));
    }
  }
};

// Integers are accumulated; they wrap.
template <typename T>
struct AccumulateOp {
  using Element = uint64_t;
  int64_t factor;
  __device__ uint64_t Load(const Arrays<T>& a, int64_t i, float share) const {
    return static_cast<uint64_t>(factor) * static_cast<uint64_t>(a.Gradient(i, share)) +
           static_cast<uint64_t>(a.weight[i]);
  }
  __device__ void Store(const Arrays<T>& a, int64_t i, uint64_t sum) const {
    a.StoreRounded(i, static_cast<T>(sum));
  }
};

// Updates that differ in nothing but their arrays.
using AlikeUpdates = InlineVector<const CardUpdate*, 16>;

bool Alike(const CardUpdate& a, const CardUpdate& b) {
  return a.optimizer == b.optimizer && a.step == b.step && a.scale == b.scale && a.dtype == b.dtype &&
         a.exponent == b.exponent;
}

template <typename T>
Arrays<T> ArraysOf(const CardUpdate& update) {
  Arrays<T> arrays{.weight = static_cast<T*>(update.weight),
                   .gradients = {},
                   .states = {},
                   .master = nullptr,
                   .copies = {}};
  for (size_t i = 0; i < update.gradients.size(); ++i)
    arrays.gradients[i] = static_cast<const T*>(update.gradients[i]);
  for (size_t i = 0; i < update.copies.size(); ++i) arrays.copies[i] = static_cast<T*>(update.copies[i]);
  const size_t own = update.optimizer == nullptr ? 0 : update.optimizer->slot_names().size();
  for (size_t i = 0; i < update.states.size(); ++i) {
    auto* const state = static_cast<Computed<T>*>(update.states[i]);
    (i < own ? arrays.states[i] : arrays.master) = state;
  }
  return arrays;
}

float ShareOf(const AlikeUpdates& updates) {
  return std::ldexp(1.0f, -static_cast<int>(updates.front()->exponent));
}

// Launches `op` on the arrays, as many at a time as the arguments of a kernel have room for.
template <typename T, typename Op>
void LaunchOn(cuda::CudaKernels& kernels, const AlikeUpdates& updates, const Op& op) {
  static_assert(sizeof(Table<T>) + sizeof(Op) <= 4096);
  Table<T> table{.chunks = cuda::ArrayChunks<kMostArrays>(kChunk),
                 .arrays = {},
                 .share = ShareOf(updates),
                 .check = kernels.Check()};
  const auto launch = [&] {
    if (table.chunks.arrays() > 0)
      cuda::Launch(kernels.stream(), table.chunks.count(), UpdateKernel<T, Op>, table, op);
    table.chunks.Clear();
  };
  for (const CardUpdate* update : updates) {
    if (update->n == 0) continue;
    if (table.chunks.full()) launch();
    table.arrays[table.chunks.Add(update->n)] = ArraysOf<T>(*update);
  }
  launch();
}

// How many partial sums the largest array's norms take.
size_t MostParts(const AlikeUpdates& updates) {
  size_t most = 0;
  for (const CardUpdate* update : updates)
    if (update->n > 0) most = std::max(most, cuda::PartsOfColumns(update->n, 1));
  return most;
}

// Returns the squares of each array's norms, for which the host waits once.
template <typename T, typename Formula>
std::vector<Optimizer::Norms> Measure(cuda::CudaKernels& kernels, const AlikeUpdates& updates,
                                      const Formula& formula) {
  const size_t parts = MostParts(updates);
  // The memory is taken before any array changes: without it none may.
  auto* const memory = kernels.workspace().template Take<cuda::Pair>(parts + updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i]->n == 0) continue;
    cuda::SumColumns(
        kernels.stream(), memory, updates[i]->n, 1,
        MeasureTerm<Formula, T>{formula, ArraysOf<T>(*updates[i]), ShareOf(updates), kernels.Check()},
        StorePair{memory + parts + i});
  }
  std::vector<cuda::Pair> sums(updates.size());
  cuda::Require(cudaMemcpyAsync(sums.data(), memory + parts, sums.size() * sizeof(cuda::Pair),
                                cudaMemcpyDefault, kernels.stream()),
                "cudaMemcpyAsync of norms");
  cuda::Require(cudaStreamSynchronize(kernels.stream()), "cudaStreamSynchronize");
  std::vector<Optimizer::Norms> norms(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (updates[i]->n > 0) norms[i] = {.weight = sums[i].first, .direction = sums[i].second};
  }
  return norms;
}

template <typename T>
void Update(cuda::CudaKernels& kernels, const AlikeUpdates& updates) {
  const CardUpdate& first = *updates.front();
  const auto launch = [&](const AlikeUpdates& some, auto op) { LaunchOn<T>(kernels, some, op); };
  if (first.optimizer == nullptr) return launch(updates, AssignOp<T>{first.scale});
  if constexpr (std::is_integral_v<T>) {
    launch(updates, AccumulateOp<T>{static_cast<int64_t>(first.optimizer->config().rescale_grad)});
  } else {
    Optimizer::Step step = first.step;
    WithFormula(first.optimizer->config(), [&]<template <typename> typename Formula>() {
      using Of = Formula<Computed<T>>;
      const auto formula = [&] { return Of(FactorsOf(*first.optimizer, step)); };
      if constexpr (!HasNorms<Of>) return launch(updates, StepOp<Of, T>{formula()});
      if constexpr (HasNorms<Of>) {
        const std::vector<Optimizer::Norms> norms = Measure<T>(kernels, updates, formula());
        for (size_t i = 0; i < updates.size(); ++i) {
          step.norms = norms[i];
          launch({updates[i]}, StepOp<Of, T>{formula()});
        }
      }
    });
  }
}

}  // namespace

void UpdateOnCard(Kernels& any, std::span<const CardUpdate> updates) {
  auto* const kernels = dynamic_cast<cuda::CudaKernels*>(&any);
  SLUICE_CHECK(kernels != nullptr) << "an array on a card is updated by the kernels of another device";
  AlikeUpdates left, alike, others;
  for (const CardUpdate& update : updates) left.push_back(&update);
  while (!left.empty()) {
    const CardUpdate* const first = left.front();
    for (const CardUpdate* update : left)
      (update == first || Alike(*update, *first) ? alike : others).push_back(update);
    cuda::WithType(alike.front()->dtype, [&]<typename T>(T) { Update<T>(*kernels, alike); });
    left = std::exchange(others, {});
    alike = {};
  }
}

}  // namespace sluice::kvstore
