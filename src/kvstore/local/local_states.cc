// LocalStore calls this on the program's threads, with its mutex held and after all operations have ended:
// the states are read and written in place. A key that is loaded makes its ArrayRule anew, since updates
// share the states that they have begun with.
#include "kvstore/local/local_states.h"

#include "kvstore/states_file.h"
#include "kvstore/table_states.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

KeyStates StatesOfArray(const UpdateRule& rule, LocalKey& key) {
  FitStates(rule, &key);
  return {.num_updates = static_cast<uint64_t>(key.num_updates), .slots = key.states.Copies(), .rows = {}};
}

void SetStatesOfArray(const UpdateRule& rule, LocalKey& key, const KeyStates& loaded) {
  key.array_rule = nullptr;
  FitStates(rule, &key);
  key.states.Set(loaded.slots);
}

KeyStates StatesOfRows(const UpdateRule& rule, LocalKey& key) {
  KeyStates states = StatesOfTable(*rule.optimizer, *key.rows);
  states.num_updates = static_cast<uint64_t>(key.num_updates);
  return states;
}

std::vector<StateLayout> Layouts(const UpdateRule& rule, LocalKeyTable& keys) {
  if (!rule.optimizer) throw Error(ErrorCode::kFailedPrecondition, "optimiser states: no optimiser was set");
  std::vector<StateLayout> layouts;
  for (const auto& [name, key] : keys.keys())
    layouts.push_back({ToString(name), key.shape.shape, key.shape.dtype, key.shape.row_sparse});
  return layouts;
}

}  // namespace

void SaveLocalStates(const std::string& path, const UpdateRule& rule, LocalKeyTable& keys) {
  const std::vector<StateLayout> layouts = Layouts(rule, keys);
  std::map<std::string, KeyStates> saved;
  for (auto& [name, key] : keys.keys())
    saved[ToString(name)] = key.rows != nullptr ? StatesOfRows(rule, key) : StatesOfArray(rule, key);
  SaveStates(path, *rule.optimizer, layouts, saved);
}

void LoadLocalStates(const std::string& path, const UpdateRule& rule, LocalKeyTable& keys) {
  const std::vector<StateLayout> layouts = Layouts(rule, keys);
  auto loaded = LoadStates(path, *rule.optimizer, layouts);
  for (auto& [name, key] : keys.keys()) {
    const KeyStates& states = loaded[ToString(name)];
    key.num_updates = static_cast<int64_t>(states.num_updates);
    if (key.rows != nullptr)
      SetStatesOfTable(*rule.optimizer, states, key.rows.get());
    else
      SetStatesOfArray(rule, key, states);
  }
}

}  // namespace sluice::kvstore
