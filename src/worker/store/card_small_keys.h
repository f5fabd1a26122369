// CardSmallKeys puts the small keys of one call whose arrays lie on cards in small-key batches. One kernel
// gathers the gradients of a batch, and one copy brings them to the host; one copy brings the pulled values
// back, and one kernel copies them to their arrays. A copy for each key would cost its thread more time than
// the card.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "worker/store/device_arrays.h"
#include "worker/store/issuer.h"

namespace sluice::worker {

// An object lives as long as its call. Thread safety: one thread.
class CardSmallKeys {
 public:
  using Arrays = const std::vector<NDArray>*;  // the values or the outputs of a key; null: there are none

  CardSmallKeys(StoreContext& context, Issuer& issuer, DeviceArrays& arrays);

  // Whether all arrays of a small key lie on cards, as does the sum of its values, and no value is still to
  // be delivered by other workers.
  bool Accept(StoreKey& key, Arrays values, Arrays outs);
  // Whether Add has been given an array in the same memory.
  bool Uses(Arrays values, Arrays outs) const;
  // Adds a key that Accept has accepted. `what` and the arrays must live until Issue.
  void Add(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs);
  // Issues what has been added since the last call. `new_operation` makes an operation with all but its keys
  // and its source.
  void Issue(FunctionRef<std::shared_ptr<Operation>()> new_operation, CallBatch& calls);

 private:
  struct Entry {
    const OperationLabels* what;
    StoreKey* key;
    Arrays values, outs;
  };
  // Keys of one shard whose sums lie on one card, and whose outputs are on the same cards. An operation that
  // is to be submitted before is the same for all of them, so that no key waits for another one's.
  struct Batch {
    uint32_t shard;
    uint64_t after;  // StoreKey::issue of that operation; 0: there is none
    std::optional<Context> source;
    std::vector<Context> outs;
    size_t bytes;
    std::vector<Entry> entries;
  };
  void IssueBatch(const Batch& batch, std::shared_ptr<Operation> op, CallBatch& calls);
  // Adds the keys with places for their values in a block on the host, and copies from there to the outputs.
  void AddKeys(const Batch& batch, Operation* op, CallBatch& calls);

  StoreContext& context_;
  Issuer& issuer_;
  DeviceArrays& arrays_;
  std::vector<Batch> batches_;
};

}  // namespace sluice::worker
