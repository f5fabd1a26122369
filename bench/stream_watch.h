// Hears of every operation that the default devices' streams run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cost.h"
#include "tensor/devices.h"

namespace sluice::bench {

struct Operation {
  // A store's operation on a key, which this one comes after.
  struct Wait {
    std::string what;  // "push_pull of key conv1.weight"
    Time done;         // not after `turn` where it kept nobody waiting
  };
  std::string what;
  Time turn;  // it was issued, and those before it on the stream were done
  Time began, ended;
  std::vector<Wait> waits;
  Cost cost = {};  // of its kernels
};

class StreamWatcher {
 public:
  virtual ~StreamWatcher() = default;
  // On the stream's thread: quick.
  virtual void OnOperation(const Operation& operation) = 0;
};

// Of every device that the default devices make from here on; before the first array. `watcher` may be null.
void UseDevices(int threads_per_cpu_context, std::shared_ptr<StreamWatcher> watcher);

}  // namespace sluice::bench
