// The state arrays beside a weight: the optimiser's, and last the float32 master of a 16-bit weight
// (OptimizerConfig::multi_precision).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "sluice/dtype.h"
#include "sluice/optimizer.h"

namespace sluice::kvstore {

// Of a weight's states.
inline DType StateType(DType weight) {
  return weight == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}
// Bytes of one state array for `length` elements of `weight`.
inline size_t SlotBytes(DType weight, size_t length) {
  return length * SizeOf(StateType(weight));
}

bool HasMaster(const Optimizer& optimizer, DType weight);
std::vector<std::string_view> StateNames(const Optimizer& optimizer, DType weight);

// For each state of `names`, which of those that `had` lists it goes on with; nullopt: it begins as zeros.
// They stay where the optimiser's are the same ones, and so does a master.
std::vector<std::optional<size_t>> KeptStates(std::span<const std::string_view> had,
                                              std::span<const std::string_view> names);

struct States {
  std::vector<std::string_view> names;
  std::vector<std::shared_ptr<Buffer>> arrays;
};
// Makes `states` the optimiser's (null: none) for `length` elements, as KeptStates says. Zeros are right for
// a new master too: UpdatePart takes a master that does not round to the weight from the weight.
void FitStates(const Optimizer* optimizer, DType weight, size_t length, States* states);

}  // namespace sluice::kvstore
