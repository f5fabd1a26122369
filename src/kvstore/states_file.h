// Optimiser states on disk, a safetensors file. Each state is an entry "<key>/<slot>"; the metadata entry
// "updates of <key>" is the number of updates that the states have seen. A row-sparse key with states
// also has an entry "<key>/rows": the ids (int64, ascending) of the rows whose states the file holds.
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
  std::vector<Buffer> slots;  // their dtype is StateType; in the order of StateNames
  std::vector<int64_t> rows;  // row-sparse keys: the rows whose states these are
};

// The states of one key, as SaveStates writes and LoadStates expects them.
struct StateLayout {
  std::string key;
  Shape shape;
  DType dtype = DType::kFloat32;  // the weight's
  bool row_sparse = false;
};

// Writes the states of the keys in `layouts`; `states` is
// by key. Throws Error when the file cannot be written.
void SaveStates(const std::string& path, const Optimizer& optimizer, const std::vector<StateLayout>& layouts,
                const std::map<std::string, KeyStates>& states);
// Reads the states of the keys in `layouts`, by key. Throws Error that names the file and the
// entry when the optimiser differs or an entry is missing, invalid or of another shape or dtype.
std::map<std::string, KeyStates> LoadStates(const std::string& path, const Optimizer& optimizer,
                                            const std::vector<StateLayout>& layouts);
// The number of updates of the key that has seen most. Throws Error that names the file.
uint64_t MostUpdates(const std::string& path);

}  // namespace sluice::kvstore
