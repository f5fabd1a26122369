// The store that a Trainer and Fit use when they are given none. Internal to train/.
#pragma once

#include <memory>

#include "kvstore/local/local_store.h"

namespace sluice::train {

inline std::shared_ptr<KVStore> StoreOrDefault(std::shared_ptr<KVStore> store) {
  if (store != nullptr) return store;
  return kvstore::MakeLocalStore(StoreType::Parse("device"), /*threads=*/1, kNoLimit);
}

}  // namespace sluice::train
