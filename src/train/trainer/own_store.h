// The store that a Trainer and Fit use when they are given none. Internal to train/.
#pragma once

#include <memory>

#include "kvstore/local/local_store.h"

namespace sluice::train {

inline std::shared_ptr<KVStore> StoreOrDefault(std::shared_ptr<KVStore> store) {
  return store != nullptr ? std::move(store) : kvstore::MakeLocalStore("device", /*threads=*/1);
}

}  // namespace sluice::train
