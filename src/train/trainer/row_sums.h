// Sums row-sparse gradients over devices and workers, for a Trainer with update_on_kvstore = false.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "train/trainer/table_rows.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// All methods run on the training thread. The store must outlive it.
class RowSums {
 public:
  explicit RowSums(KVStore& store) : store_(store) {}

  // Makes the keys of a parameter and brings rank 0's values to all contexts of all workers, which must call
  // it and wait for each other.
  void Make(TrackedParameter& tracked);
  // Replaces the gradients of the parameter by their sum over devices and workers, divided by `divisor`, on
  // each context; no id occurs twice. All workers must call it, and wait for each other.
  void Sum(const TrackedParameter& tracked, double divisor);

 private:
  std::vector<int64_t> IdsOfAll(const TrackedParameter& tracked, const std::vector<int64_t>& own);
  bool single_worker() const { return store_.num_workers() == 1; }

  KVStore& store_;
};

}  // namespace sluice::internal
