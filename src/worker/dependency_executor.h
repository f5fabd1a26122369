// Runs work on host memory between this worker's devices and the network: sums
// of gradients, copies of weights.
//
// A stream runs its work in the order of issue. A copy that waited on a device's stream for other
// workers would delay the gradients issued after it, for which the other workers may be waiting in
// turn. Here work starts when the events that it depends on have completed, in whatever order that is,
// and no thread waits for the network.
#pragma once

#include <memory>
#include <span>

#include "base/executor.h"
#include "base/guarded.h"
#include "tensor/stream.h"

namespace sluice::worker {

// Owns one thread. Thread safety: all methods may be called on any thread, and
// events may complete on any thread.
class DependencyExecutor {
 public:
  DependencyExecutor();
  // Runs the work that is ready. Work that becomes ready later runs on the
  // thread that completes its last event.
  ~DependencyExecutor();
  DependencyExecutor(const DependencyExecutor&) = delete;
  DependencyExecutor& operator=(const DependencyExecutor&) = delete;

  // As Stream::Enqueue, but in no particular order. `work` must not wait for events.
  Event Enqueue(Label what, std::span<const Event> after, Stream::Work work);

 private:
  // Shared with work that is not ready yet. The executor is null once this object is being destroyed.
  using Slot = Guarded<std::unique_ptr<ThreadExecutor>>;
  static void Run(Slot& slot, Task task);
  const std::shared_ptr<Slot> slot_;
  const std::shared_ptr<Allocator> records_;
};

}  // namespace sluice::worker
