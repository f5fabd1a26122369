// OptimizerStates saves and loads the optimiser's states, and asks for numbers of updates.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvstore/states_file.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// Every method waits for the servers. Thread safety: one thread at a time.
class OptimizerStates {
 public:
  OptimizerStates(StoreContext& context, const StoreSettings& settings, StoreKeyTable& keys)
      : context_(context), settings_(settings), keys_(keys) {}

  // Worker 0 calls these; all operations have ended.
  void Save(const std::string& path);
  void Load(const std::string& path);
  uint64_t NumUpdates(const Key& key);

 private:
  // Keys that are requested together.
  using KeyGroup = std::vector<const StoreKey*>;

  std::vector<kvstore::StateLayout> Layouts(const std::string& what) const;
  // Returns all keys in the order of the table. A row-sparse key is alone in its group.
  std::vector<KeyGroup> GroupsOfKeys() const;
  std::vector<kvstore::KeyStates> PullStates(const KeyGroup& keys) const;
  void StoreStates(const KeyGroup& keys, std::span<kvstore::KeyStates> states) const;

  StoreContext& context_;
  const StoreSettings& settings_;
  StoreKeyTable& keys_;
};

}  // namespace sluice::worker
