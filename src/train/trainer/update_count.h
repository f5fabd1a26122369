// How many updates the first parameter with a gradient has had. Schedules take a step's learning rate
// from it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/error.h"
#include "sluice/kvstore.h"
#include "train/trainer/local_update.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// The arguments must outlive it. `local_update` is null where the store updates.
class UpdateCount {
 public:
  UpdateCount(KVStore& store, const std::vector<TrackedParameter>& tracked, const LocalUpdate* local_update)
      : store_(store), tracked_(tracked), local_update_(local_update) {}

  int64_t value() const { return value_; }
  void Increment() { ++value_; }
  // Sets it to the count that the store or `local_update` has: more than 0 after loaded states, and in a
  // store that has served a Trainer before. In async stores, each worker's push being an update, the
  // store's number is divided by the number of workers.
  void Take() { value_ = Present(); }
  // Sets it to rank 0's present count on all workers; it is a barrier. Throws `failure` where there is
  // one, and rank 0's failure on all workers.
  void Agree(const std::optional<Error>& failure);

 private:
  int64_t Present() const;

  KVStore& store_;
  const std::vector<TrackedParameter>& tracked_;
  const LocalUpdate* const local_update_;
  int64_t value_ = 0;
};

}  // namespace sluice::internal
