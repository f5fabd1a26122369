// Reports every operation that the streams of the default devices run to a watcher, with its cost.
#pragma once

#include <memory>

#include "cost.h"
#include "tensor/stream_watcher.h"

namespace sluice::bench {

struct Operation : StreamOperation {
  Cost cost = {};  // sum over its kernels
};

class OperationWatcher {
 public:
  virtual ~OperationWatcher() = default;
  // Called after each operation, on the stream's thread; must be quick.
  virtual void OnOperation(const Operation& operation) = 0;
};

// Replaces the default devices. Their streams report to `watcher`, unless it is null. Call it before the
// first array is made.
void UseDevices(int threads_per_cpu_context, std::shared_ptr<OperationWatcher> watcher);

}  // namespace sluice::bench
