// The store that a Trainer and Fit use when they are given none, and what they take for fields of an
// optimiser that are not set. Internal to train/.
#pragma once

#include <memory>

#include "kvstore/local/local_store.h"
#include "sluice/optimizer.h"
#include "sluice/store_type.h"

namespace sluice::train {

inline std::shared_ptr<KVStore> StoreOrDefault(std::shared_ptr<KVStore> store) {
  if (store != nullptr) return store;
  return kvstore::MakeLocalStore(StoreType::Parse("device"), /*threads=*/1, kNoLimit);
}

inline OptimizerConfig ResolvedFor(const KVStore& store, OptimizerConfig config) {
  return StoreType::Parse(store.type()).async ? ResolvedForAsync(std::move(config), store.num_workers())
                                              : Resolved(std::move(config));
}

}  // namespace sluice::train
