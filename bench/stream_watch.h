// Reports every operation that the streams of the default devices run to a watcher.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cost.h"
#include "tensor/devices.h"

namespace sluice::bench {

struct Operation {
  // A store's operation on a key that had to be done before this operation could run.
  struct Wait {
    std::string what;  // "push_pull of key conv1.weight"
    Time done;         // at or before `ready` if this operation did not wait for it
  };
  std::string what;
  Time ready;  // from when on it was issued and the operations before it on the stream were done
  Time began, ended;
  std::vector<Wait> waits;
  Cost cost = {};  // sum over its kernels
};

class StreamWatcher {
 public:
  virtual ~StreamWatcher() = default;
  // Called after each operation, on the stream's thread; must be quick.
  virtual void OnOperation(const Operation& operation) = 0;
};

// Replaces the default devices. Their streams report to `watcher`, unless it is null. Call it before the
// first array is made.
void UseDevices(int threads_per_cpu_context, std::shared_ptr<StreamWatcher> watcher);

}  // namespace sluice::bench
