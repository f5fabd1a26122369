// Posts a task to a loop unless the one that it posted before still waits to run. SIGUSR1 may come faster
// than a loop logs its state; one task for each signal would keep the loop from its messages. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "transport/transport.h"

namespace sluice::runtime {

class PostOnce {
 public:
  // Returns false when the loop has ended.
  bool operator()(transport::Loop& loop, std::function<void(Time)> task) const {
    if (waits_->exchange(true)) return true;
    const bool posted = loop.Post([waits = waits_, task = std::move(task)](Time now, transport::Network&) {
      *waits = false;
      task(now);
    });
    if (!posted) *waits_ = false;
    return posted;
  }

 private:
  const std::shared_ptr<std::atomic<bool>> waits_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace sluice::runtime
