// Updating weights where they are used: what a Trainer does with update_on_kvstore = false.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kvstore/states_file.h"
#include "kvstore/update_array.h"
#include "sluice/ndarray.h"
#include "sluice/trainer.h"
#include "tensor/stream.h"

namespace sluice {

class Trainer::LocalUpdate {
 public:
  explicit LocalUpdate(const OptimizerConfig& config) { Set(config); }
  void Set(const OptimizerConfig& config);
  // A key, without states yet.
  void Add(const std::string& key, const std::vector<NDArray>& weights);
  // What no step updates: in the file of states with zeros, as in a store's.
  void AddConstant(const std::string& key, const std::vector<NDArray>& values);
  // The next step updates every context's copy; equal copies stay equal.
  void AddToStep(const std::string& key, const std::vector<NDArray>& weights,
                 const std::vector<NDArray>& gradients, double scale);
  // Enqueues the updates that were added: one operation for each context.
  void Step();
  void Save(const std::string& path);
  int64_t NumUpdates(const std::string& key) const { return states_.at(key).num_updates; }
  // On every worker; rank 0 reads.
  void Load(const std::string& path, KVStore& store);

 private:
  struct State {
    Shape shape;
    DType dtype = DType::kFloat32;  // of the weights
    int64_t num_updates = 0;
    Label name;  // of an update
    struct Copy {
      kvstore::States states;
      std::shared_ptr<const kvstore::ArrayUpdate> update;  // null: to be made from rule and states
      Event last;
    };
    std::vector<Copy> copies;
  };
  using Loaded = std::map<std::string, kvstore::KeyStates>;
  void Wait();
  Loaded Read(const std::string& path, KVStore& store) const;
  void Share(KVStore& store, Loaded* loaded) const;
  void Fit(const State& of, kvstore::States* states) const;
  void FollowCopies(State* state, size_t count) const;
  void Prepare(const std::string& key, const State& of, State::Copy* copy) const;
  std::vector<kvstore::StateLayout> Layouts() const;

  kvstore::UpdateRule rule_;
  std::map<std::string, State> states_;
  std::vector<kvstore::StateLayout> constants_;
  std::vector<kvstore::PendingUpdate> added_;
  std::vector<State::Copy*> added_copies_;  // whose updates these are
  bool shared_ = false;                     // the keys that Share needs exist
};

}  // namespace sluice
