// Reports every operation that the streams of a device run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tensor/devices.h"

namespace sluice {

struct StreamOperation {
  // A store's operation on a key that had to be done before this operation could run.
  struct Wait {
    std::string what;  // "push_pull of key conv1.weight"
    Time done;         // at or before `ready` if this operation did not wait for it
  };
  std::string stream;  // "cpu(0)", "gpu(1) to host"
  std::string what;
  Time ready;  // from when on it was issued and the operations before it on the stream were done
  // On a GPU, whose work is issued ahead, `began` is when it was ready and what it waits for was done.
  Time began, ended;
  std::vector<Wait> waits;
};

class StreamWatcher {
 public:
  virtual ~StreamWatcher() = default;
  // Called on the stream's thread right before an operation's work.
  virtual void OnBegin() {}
  // Called after each operation, on the thread that ends it; must be quick.
  virtual void OnOperation(const StreamOperation& operation) = 0;
};

// Returns a device that does what `device` does, and reports to `watcher` alone: a device that is watched
// already is not wrapped twice, and without a watcher it is returned as it was. `kernels`, if not null, takes
// the place of the device's own.
std::shared_ptr<Device> Watched(Context context, std::shared_ptr<Device> device,
                                std::shared_ptr<StreamWatcher> watcher,
                                std::shared_ptr<Kernels> kernels = nullptr);

}  // namespace sluice
