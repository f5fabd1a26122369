// LocalKeyTable has the keys of a LocalStore, with their values and states.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kvstore/array_states.h"
#include "kvstore/rows/row_table.h"
#include "kvstore/store_common.h"
#include "kvstore/update_array.h"

namespace sluice::kvstore {

struct LocalKey {
  KeyShape shape;
  wire::KeySpec spec;
  std::shared_ptr<RowTable> rows;  // row-sparse keys: the rows, in place of the arrays
  Event rows_used;                 // the end of the last call on `rows`
  NDArray weight;
  std::optional<Context> place;  // where several gradients are added up, from the first push of them on
  NDArray merged;                // their sum, unless the update adds them up
  ArrayStates states;
  int64_t num_updates = 0;
  std::shared_ptr<const ArrayRule> array_rule;  // null: made from the rule and the states when needed
  Label update_name, push_name, pull_name;
  // The origin of the values that are pulled (tensor/access.h).
  std::shared_ptr<const void> origin = std::make_shared<char>();
};

// Makes the states of a dense key those of the rule's optimiser, where its weight is.
void FitStates(const UpdateRule& rule, LocalKey* key);
// Returns the input of the update by a push; nullopt when the optimiser
// normalises by samples and the push has none, so that nothing changes.
std::optional<UpdateInput> NextUpdate(const UpdateRule& rule, LocalKey* key, const PushOptions& options);

// Thread safety: one thread at a time.
class LocalKeyTable {
 public:
  // Throws Error(kFailedPrecondition) when the key has not been initialised.
  LocalKey& Find(const std::string& what, const Key& key);
  // For Init: throws Error unless the key can be added: its name is valid, new and of the type of the other
  // keys, and `rule` can update it.
  void RequireNew(const Key& key, const wire::KeySpec& spec, const UpdateRule& rule) const;
  void Add(const Key& key, LocalKey added) { keys_.emplace(key, std::move(added)); }
  std::map<Key, LocalKey>& keys() { return keys_; }

 private:
  std::map<Key, LocalKey> keys_;
};

}  // namespace sluice::kvstore
