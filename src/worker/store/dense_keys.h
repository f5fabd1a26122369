// DenseKeys issues the operations of Push, Pull, PushPull and Set. gradient_stages.h says what a gradient
// passes on its way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/pull/adoption_budget.h"
#include "worker/store/card_large_keys.h"
#include "worker/store/device_arrays.h"
#include "worker/store/issuer.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// The methods are those of KVStore: they check their arguments, issue operations and return.
//
// Thread safety: one thread at a time.
class DenseKeys {
 public:
  using Values = KVStore::Values;

  DenseKeys(StoreContext& context, const StoreSettings& settings, StoreKeyTable& keys, Issuer& issuer,
            std::unique_ptr<collective::Reducer> reducer);

  void Push(const std::vector<Key>& keys, const std::vector<Values>& values, const PushOptions& options);
  // Is PullLatest as well, with `latest`. Errors begin with `what`.
  void Pull(const std::string& what, const std::vector<Key>& keys, const std::vector<Values>& outs,
            int priority, bool latest);
  void PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                const std::vector<Values>& outs, const PushOptions& options);
  void Set(const std::vector<Key>& keys, const std::vector<NDArray>& values);

 private:
  // One key of a call that does not go in a small-key batch; in ranges, if CardLargeKeys accepts it.
  void PushOne(StoreKey& key, const std::vector<NDArray>& values, const PushOptions& options,
               CallBatch& calls);
  void PullOne(StoreKey& key, const std::vector<NDArray>& outs, int priority, bool latest, CallBatch& calls);
  void PushPullOne(StoreKey& key, const std::vector<NDArray>& values, const std::vector<NDArray>& outs,
                   const PushOptions& options, CallBatch& calls);
  void SetOne(StoreKey& key, const NDArray& value, CallBatch& calls);

  // Returns what is sent of DeviceArrays::Source: the array, or its encoding. Sets in `push` how to read it,
  // and what `options` say.
  NDArray Encode(StoreKey& key, const std::vector<NDArray>& values, const PushOptions& options,
                 Operation* push);
  // Returns the destination for a value of the key in `target`. `kept`: other arrays are copied from the
  // target, or it is pushed as well, so it must not adopt.
  Destination DestinationIn(NDArray& target, const StoreKey& key, bool kept, CallBatch& calls);

  StoreContext& context_;
  const StoreSettings& settings_;
  StoreKeyTable& keys_;
  Issuer& issuer_;
  DeviceArrays arrays_;
  CardLargeKeys large_;
  AdoptionBudget adoption_budget_;
};

}  // namespace sluice::worker
