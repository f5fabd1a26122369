// SmallKeys puts the small keys of one call in small-key batches (small_key_batch.h).
#pragma once

#include <vector>

#include "worker/store/device_arrays.h"
#include "worker/store/key_table.h"
#include "worker/store/store_context.h"

namespace sluice::worker {

// An object lives as long as its call. Thread safety: one thread.
class SmallKeys {
 public:
  // `keys` are all keys of the call; `latest` is that of Operation.
  SmallKeys(StoreContext& context, const StoreSettings& settings, DeviceArrays& arrays, OpKind kind,
            const FoundKeys& keys, const PushOptions& options, bool latest = false);

  // Whether the key goes in a small-key batch: it is not the only small key of the call, and no operation on
  // its arrays is open, so that the batch does not have to wait for anything. `values` are pushed and `outs`
  // pulled into; null: there are none.
  bool Accept(const StoreKey& key, const std::vector<NDArray>* values,
              const std::vector<NDArray>* outs) const;
  // Adds a key that Accept has accepted to the batch of its shard in `calls`, and opens one if need be.
  void Add(const CallName& what, StoreKey& key, const std::vector<NDArray>* values,
           const std::vector<NDArray>* outs, CallBatch& calls);

 private:
  SmallKeyBatch NewBatch(const Event& done) const;

  StoreContext& context_;
  DeviceArrays& arrays_;
  const OpKind kind_;
  const PushOptions options_;
  const bool latest_;
  size_t keys_ = 0, bytes_ = 0;  // the call's small keys; a single one is not batched
  Duration timeout_{};
};

}  // namespace sluice::worker
