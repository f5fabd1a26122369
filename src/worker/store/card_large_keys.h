// CardLargeKeys exchanges a large key whose arrays lie on cards range by range (StoreKey::ranges): while one
// range is copied from the card, those before it are sent, summed, received and copied back.
#pragma once

#include <memory>
#include <vector>

#include "kvstore/joint_end.h"
#include "worker/store/device_arrays.h"
#include "worker/store/issuer.h"

namespace sluice::worker {

// Thread safety: one thread at a time.
class CardLargeKeys {
 public:
  using Arrays = const std::vector<NDArray>*;  // the values or the outputs of a key; null: there are none

  CardLargeKeys(StoreContext& context, const StoreSettings& settings, Issuer& issuer, DeviceArrays& arrays);

  // Whether a push, a pull or a push_pull of the key goes in ranges: all arrays and the sum of the values lie
  // on cards, nothing is encoded, and no shard has to answer from one state (docs/design/protocol.md).
  bool Accept(OpKind kind, StoreKey& key, Arrays values, Arrays outs);
  // Issues the operations on a key that Accept has accepted. `latest` is that of Operation.
  void Issue(OpKind kind, StoreKey& key, Arrays values, Arrays outs, const PushOptions& options, bool latest,
             CallBatch& calls);

 private:
  // One call on one key.
  struct Call {
    OpKind kind;
    PushOptions options;
    bool latest;
    uint32_t exponent = 0;       // Operation::exponent
    std::vector<Event> ready{};  // by range: its bytes of `source` are there
    Frame source{};              // the sum of the values, on its way to the host
    Destination destination{};   // in pinned memory, of the whole key
  };
  static void CopySum(const StoreKey& key, const NDArray& sum, Call* call);
  // Returns the deliveries of the ranges. `end` is told of each range's end, issued or not.
  kvstore::Deliveries IssueRanges(const Call& call, StoreKey& key,
                                  const std::shared_ptr<kvstore::JointEnd>& end, CallBatch& calls);
  std::shared_ptr<Operation> NewOp(const Call& call, const StoreKey& key, size_t range) const;

  StoreContext& context_;
  const StoreSettings& settings_;
  Issuer& issuer_;
  DeviceArrays& arrays_;
};

}  // namespace sluice::worker
