// SmallKeys puts the small keys of one call in small-key batches (small_key_batch.h).
#pragma once

#include <vector>

#include "worker/store/card_small_keys.h"
#include "worker/store/device_arrays.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// An object lives as long as its call. Thread safety: one thread.
class SmallKeys {
 public:
  using Arrays = CardSmallKeys::Arrays;

  // `keys` are all keys of the call; `latest` is that of Operation.
  SmallKeys(StoreContext& context, const StoreSettings& settings, Issuer& issuer, DeviceArrays& arrays,
            OpKind kind, const FoundKeys& keys, const PushOptions& options, bool latest = false);

  // Puts the key in a small-key batch and returns true, or returns false if it goes by itself. It goes in a
  // batch if it is not the only small key of the call, and its arrays lie on cards, or no operation on them
  // is open, so that the batch does not have to wait for anything. `values` are pushed and `outs` pulled
  // into; they must live until Issue.
  bool Take(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs, CallBatch& calls);
  // Issues the batches on cards. Those on the host are in `calls`.
  void Issue(CallBatch& calls);

 private:
  std::shared_ptr<Operation> NewOp() const;
  void AddOnHost(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs, CallBatch& calls);

  StoreContext& context_;
  DeviceArrays& arrays_;
  CardSmallKeys cards_;
  const OpKind kind_;
  const PushOptions options_;
  const bool latest_;
  size_t keys_ = 0, bytes_ = 0;  // the call's small keys; a single one is not batched
  Duration timeout_{};
};

}  // namespace sluice::worker
