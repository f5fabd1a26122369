// DeviceArrays does the first and the last stage of a gradient (gradient_stages.h): before a push it sums the
// arrays of this machine's devices, and it copies a pulled value to them.
#pragma once

#include <memory>
#include <vector>

#include "collective/reducer.h"
#include "worker/store/key_table.h"
#include "worker/store/store_context.h"

namespace sluice::worker {

// Thread safety: one thread at a time.
class DeviceArrays {
 public:
  DeviceArrays(StoreContext& context, std::unique_ptr<collective::Reducer> reducer);

  // Returns the array to be pushed: the only value if it is in host memory, else the sum of all values,
  // scaled by collective::ExponentOfSum. Counts the key's round.
  NDArray Source(StoreKey& key, const std::vector<NDArray>& values);
  // Returns the array into which the value is pulled: the first output in host memory, else key.staging.
  static NDArray Target(StoreKey& key, const std::vector<NDArray>& outs);
  // Copies the value from the target to the other arrays of `outs`, once it has been delivered. No stream of
  // a device waits for that: what else it does must not wait for other workers.
  void Broadcast(const StoreKey& key, const NDArray& target, const Event& delivered,
                 const std::vector<NDArray>& outs);

 private:
  StoreContext& context_;
  const std::unique_ptr<collective::Reducer> reducer_;
};

}  // namespace sluice::worker
