// Updates weights on their own contexts: a Trainer with update_on_kvstore = false does this.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/array_states.h"
#include "kvstore/states_file.h"
#include "kvstore/update_array.h"
#include "sluice/kvstore.h"
#include "sluice/ndarray.h"
#include "sluice/optimizer.h"
#include "tensor/stream.h"
#include "train/trainer/row_update.h"

namespace sluice::internal {

class LocalUpdate {
 public:
  explicit LocalUpdate(const OptimizerConfig& config) { Set(config); }
  void Set(const OptimizerConfig& config);
  // Adds a key. Its states are made when they are first needed.
  void Add(const std::string& key, const std::vector<NDArray>& weights);
  // Adds a key of which steps update single rows.
  void AddTable(const std::string& key, const Shape& shape);
  // Adds a key that no step updates. Its states are zeros in the file, as in a file that a store writes.
  void AddConstant(const std::string& key, const std::vector<NDArray>& values);
  // Adds one update per context of `key` to the next Step, with gradients times `scale`. Equal copies
  // stay equal.
  void AddToStep(const std::string& key, const std::vector<NDArray>& weights,
                 const std::vector<NDArray>& gradients, double scale);
  // Updates rows of a table at once, on all contexts (RowUpdate).
  void UpdateRows(const std::string& key, std::vector<NDArray>* weights,
                  const std::vector<RowSparse>& gradients, double scale) {
    tables_.at(key).Update(rule_, gradients, scale, weights);
  }
  // Enqueues the updates that were added, as one operation per context, and returns at once.
  void Step();
  void Save(const std::string& path);
  int64_t NumUpdates(const std::string& key) const;
  // Sets all states to those of the file, which rank 0 reads. All workers must call it, and wait for
  // each other.
  void Load(const std::string& path, KVStore& store);

 private:
  struct State {
    Shape shape;
    DType dtype = DType::kFloat32;  // the weights' type
    int64_t num_updates = 0;
    Label name;  // names the key's updates in errors
    struct Copy {
      Context context;
      kvstore::ArrayStates states;
      std::shared_ptr<const kvstore::ArrayRule>
          array_rule;  // made from rule_ and `states`; null: must be made
      Event last;      // the end of the last update
    };
    std::vector<Copy> copies;
  };
  using Loaded = std::map<std::string, kvstore::KeyStates>;
  void Wait();
  void Forget();  // what was added to the next Step
  Loaded Read(const std::string& path, KVStore& store) const;
  void Share(KVStore& store, Loaded* loaded);
  void Fit(const State& of, State::Copy* copy) const;
  void FollowCopies(State* state, const std::vector<NDArray>& weights) const;
  void Prepare(const std::string& key, const State& of, State::Copy* copy) const;
  std::vector<kvstore::StateLayout> Layouts() const;

  kvstore::UpdateRule rule_;
  std::map<std::string, State> states_;
  std::map<std::string, RowUpdate> tables_;
  std::vector<kvstore::StateLayout> constants_;
  std::vector<kvstore::PendingUpdate> added_;
  std::vector<State::Copy*> added_copies_;  // the copies that added_ updates, in the same order
  bool shared_ = false;                     // whether the keys that Share needs exist
};

}  // namespace sluice::internal
