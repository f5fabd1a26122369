// LocalStore calls this on the program's threads, with its mutex held and after all operations have ended:
// the states are read and written in place. A key that is loaded makes its ArrayRule anew, since updates
// share the states that they have begun with.
#include "kvstore/local/local_states.h"

#include <algorithm>
#include <cstring>

#include "kvstore/states_file.h"
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

KeyStates StatesOfTable(const UpdateRule& rule, LocalKey& key) {
  RowTable& table = *key.rows;
  table.FitStates(rule.optimizer.get());
  KeyStates saved{.num_updates = static_cast<uint64_t>(key.num_updates), .slots = {}, .rows = {}};
  saved.rows.assign(table.ids().begin(), table.ids().end());
  std::ranges::sort(saved.rows);
  for (size_t slot = 0; slot < table.num_states(); ++slot) {
    Buffer& copy = saved.slots.emplace_back(saved.rows.size() * table.state_bytes());
    for (size_t i = 0; i < saved.rows.size(); ++i)
      table.ReadState(slot, saved.rows[i], copy.data() + i * table.state_bytes());
  }
  return saved;
}

void SetStatesOfTable(const UpdateRule& rule, LocalKey& key, const KeyStates& loaded) {
  RowTable& table = *key.rows;
  table.FitStates(rule.optimizer.get());
  for (size_t i = 0; i < loaded.rows.size(); ++i) {
    const size_t row = table.Touch(loaded.rows[i]);
    for (size_t slot = 0; slot < table.num_states(); ++slot)
      std::memcpy(table.State(slot, row), loaded.slots[slot].data() + i * table.state_bytes(),
                  table.state_bytes());
  }
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
    saved[ToString(name)] = key.rows != nullptr ? StatesOfTable(rule, key) : StatesOfArray(rule, key);
  SaveStates(path, *rule.optimizer, layouts, saved);
}

void LoadLocalStates(const std::string& path, const UpdateRule& rule, LocalKeyTable& keys) {
  const std::vector<StateLayout> layouts = Layouts(rule, keys);
  auto loaded = LoadStates(path, *rule.optimizer, layouts);
  for (auto& [name, key] : keys.keys()) {
    const KeyStates& states = loaded[ToString(name)];
    key.num_updates = static_cast<int64_t>(states.num_updates);
    if (key.rows != nullptr)
      SetStatesOfTable(rule, key, states);
    else
      SetStatesOfArray(rule, key, states);
  }
}

}  // namespace sluice::kvstore
