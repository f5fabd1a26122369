// The parameters of a Trainer with row-sparse gradients: what ParameterKeys and pushes are for the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "train/trainer/local_update.h"
#include "train/trainer/row_sums.h"
#include "train/trainer/stored_tables.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// All methods run on the training thread. The arguments must outlive it, and the elements of `tracked` must
// stay where they are. `local_update` is null where the store updates.
class ParameterTables {
 public:
  ParameterTables(KVStore& store, std::vector<TrackedParameter>& tracked, LocalUpdate* local_update);

  // Throws Error(kFailedPrecondition) when the shape of a table is deferred, and Error(kInvalidArgument) for
  // an optimiser that row-sparse keys do not take.
  void RequireValid(const OptimizerConfig& config) const;
  // Makes the tables of a store that updates. Returns "" or, on rank 0, why the store has other values.
  std::string Make();
  // Prepares the tables for steps, after Make, once the store has its optimiser.
  void Start();
  // From here on the parameters fetch their rows from this Trainer's store.
  void Follow();
  // Returns whether a gradient that is complete is pushed by the step and not before: the workers sum, for
  // which they wait for each other and need one order, or the program has written the weights.
  bool WaitForStep(const TrackedParameter& tracked) const;
  // Pushes the rows of a parameter; where the workers update, replaces them by their sums.
  void Push(TrackedParameter& tracked, const PushOptions& options);

 private:
  bool store_updates() const { return local_update_ == nullptr; }

  KVStore& store_;
  std::vector<TrackedParameter>& tracked_;
  LocalUpdate* const local_update_;
  const std::shared_ptr<StoredTables> stored_;  // parameters refer to it
  RowSums sums_;
};

}  // namespace sluice::internal
