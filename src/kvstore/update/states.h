// The state arrays beside a weight: the optimiser's, and after them the float32 master
// of a 16-bit weight (OptimizerConfig::multi_precision). Free functions are thread-safe.
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

// The dtype of the states of a weight.
inline DType StateType(DType weight) {
  return weight == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}
// The bytes of one state array of `length` elements of a weight.
inline size_t SlotBytes(DType weight, size_t length) {
  return length * SizeOf(StateType(weight));
}

bool HasMaster(const Optimizer& optimizer, DType weight);
std::vector<std::string_view> StateNames(const Optimizer& optimizer, DType weight);

// For each state of `names`, the index in `had` of the state that it continues;
// nullopt when it starts as zeros. Optimiser states continue when the optimiser's
// names are all the same as before; a master continues when there was one.
std::vector<std::optional<size_t>> KeptStates(std::span<const std::string_view> had,
                                              std::span<const std::string_view> names);

struct States {
  std::vector<std::string_view> names;
  std::vector<std::shared_ptr<Buffer>> arrays;
};
// Makes `states` those of the optimiser (null: none) for `length` elements,
// as KeptStates says. Zeros are right for a new master, too: UpdatePart
// replaces a master that does not round to the weight by the weight.
void FitStates(const Optimizer* optimizer, DType weight, size_t length, States* states);

}  // namespace sluice::kvstore
