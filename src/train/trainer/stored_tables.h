// The tables of a Trainer's parameters whose gradients are row-sparse, as row-sparse keys of its store.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/parameter.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// With update_on_kvstore the store has the newest rows, and a parameter's arrays fetch what a forward reads.
// All methods run on the training thread. The store must outlive it; so
// must what Make and Follow are given.
class StoredTables final : public nn::RowSource {
 public:
  explicit StoredTables(KVStore& store) : store_(store) {}

  // Makes the key of a parameter, and gives it rank 0's values. All workers must call it, and meet before one
  // of them fetches or pushes. Returns "" or, on rank 0, why the store has other values.
  std::string Make(TrackedParameter& tracked);
  // Follows a parameter whose key exists.
  void Follow(TrackedParameter& tracked);
  // Pushes the row-sparse gradients of all contexts.
  void Push(const TrackedParameter& tracked, const PushOptions& options);
  // Makes the values of `written`, which the program has written, those of the key; rank 0's count. The round
  // of this worker's last push must have closed.
  void Set(const TrackedParameter& tracked, const NDArray& written);

  void Fetch(nn::Parameter& parameter, const NDArray& ids) override;
  void FetchAll(nn::Parameter& parameter) override;

 private:
  void PullAll(const Key& key, const std::vector<NDArray>& tables);
  TrackedParameter& Of(const nn::Parameter& parameter) { return *tables_.at(&parameter); }

  KVStore& store_;
  std::map<const nn::Parameter*, TrackedParameter*> tables_;
};

}  // namespace sluice::internal
