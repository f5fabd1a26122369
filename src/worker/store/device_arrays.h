// DeviceArrays does the first and the last stage of a gradient (gradient_stages.h): before a push it sums the
// arrays of this machine's devices, and it copies a pulled value to them.
#pragma once

#include <memory>
#include <vector>

#include "collective/reducer.h"
#include "kvstore/copy_to_gpu.h"
#include "tensor/access.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// Whether no array is on the host; null: there is none.
bool OnCards(const std::vector<NDArray>* arrays);

// Thread safety: one thread at a time.
class DeviceArrays {
 public:
  DeviceArrays(StoreContext& context, std::unique_ptr<collective::Reducer> reducer);

  // Returns the context where Sum leaves its result.
  Context PlaceOf(StoreKey& key, const std::vector<NDArray>& values);
  // Returns the only value, or else the sum of all values, scaled by collective::ExponentOfSum. Counts the
  // key's round.
  NDArray Sum(StoreKey& key, const std::vector<NDArray>& values);
  // Returns the array to be pushed: the sum, in host memory.
  NDArray Source(StoreKey& key, const std::vector<NDArray>& values) { return HostArray(Sum(key, values)); }
  // Returns the array into which the value is pulled: the first output in host memory, else key.staging.
  static NDArray Target(StoreKey& key, const std::vector<NDArray>& outs);
  // Copies the value from the target, whose write has been recorded, to the other arrays of `outs`, once it
  // has been delivered, and sets the origin of all of them. No stream of a device waits for the value: what
  // else it does must not wait for other workers.
  void Broadcast(const StoreKey& key, const NDArray& target, const Event& delivered,
                 const std::vector<NDArray>& outs);
  // The same for arrays on GPUs and a value that comes in parts, which are copied as they come. `uses`: by
  // output, what has to end before it is written.
  void BroadcastParts(const StoreKey& key, const NDArray& target, const Event& delivered,
                      const std::vector<NDArray>& outs, const kvstore::Deliveries& parts,
                      const std::vector<Events>& uses);

 private:
  StoreContext& context_;
  const std::unique_ptr<collective::Reducer> reducer_;
};

}  // namespace sluice::worker
