// Work on host memory between this worker's devices and the network: sums of gradients, copies of weights.
//
// A stream does its work in the order of issue, so a copy that waited on a device's stream for other workers
// would hold up the gradients issued after it, which the others may be waiting for in turn. Here work starts
// when what it needs is there, in whatever order that is, and no thread waits for the network.
#pragma once

#include <memory>
#include <span>

#include "base/executor.h"
#include "base/guarded.h"
#include "tensor/stream.h"

namespace sluice::worker {

// One thread. Thread safety: all methods; events may complete on any thread.
class DependencyExecutor {
 public:
  DependencyExecutor();
  // Does what is ready. What becomes ready later is done by the thread that makes it so.
  ~DependencyExecutor();
  DependencyExecutor(const DependencyExecutor&) = delete;
  DependencyExecutor& operator=(const DependencyExecutor&) = delete;

  // As Stream::Enqueue, but for the order. `work` must not wait.
  Event Enqueue(Label what, std::span<const Event> after, Stream::Work work);

 private:
  // Shared with work that is not ready yet; null once this object goes.
  using Slot = Guarded<std::unique_ptr<ThreadExecutor>>;
  static void Run(Slot& slot, Task task);
  const std::shared_ptr<Slot> slot_;
  const std::shared_ptr<Allocator> records_;
};

}  // namespace sluice::worker
