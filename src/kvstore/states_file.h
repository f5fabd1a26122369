// Optimiser states on disk: safetensors with an entry "<key>/<slot>" for each state, and in the metadata
// "updates of <key>": how many updates they have seen. Row-sparse keys with states have an entry
// "<key>/rows", the ids (int64, ascending) of those rows whose states are there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "data/safetensors/safetensors.h"
#include "kvstore/update/states.h"
#include "sluice/optimizer.h"

namespace sluice::kvstore {

struct KeyStates {
  uint64_t num_updates = 0;
  std::vector<Buffer> slots;  // of StateType, in the order of StateNames
  std::vector<int64_t> rows;  // of a row-sparse key: whose states these are
};

// What Load must find, and Save writes: by key text.
struct StateLayout {
  std::string key;
  Shape shape;
  DType dtype = DType::kFloat32;  // of the weight
  bool row_sparse = false;
};

void SaveStates(const std::string& path, const Optimizer& optimizer, const std::vector<StateLayout>& layouts,
                const std::map<std::string, KeyStates>& states);
// Throws Error naming file and entry when one is missing or differs in shape or dtype.
std::map<std::string, KeyStates> LoadStates(const std::string& path, const Optimizer& optimizer,
                                            const std::vector<StateLayout>& layouts);
// The updates of the key that has seen most. Throws Error naming the file.
uint64_t MostUpdates(const std::string& path);

}  // namespace sluice::kvstore
