#include "worker/dependency_executor.h"

#include <utility>

#include "base/pool_allocator.h"
#include "kvstore/store_common.h"
#include "worker/operation.h"

namespace sluice::worker {

DependencyExecutor::DependencyExecutor()
    : slot_(std::make_shared<Slot>(std::make_unique<ThreadExecutor>("host arrays"))),
      records_(std::make_shared<PoolAllocator>(kKeptRecords)) {}

DependencyExecutor::~DependencyExecutor() {
  // The thread is joined outside the lock, since the work that it still runs may make more work ready.
  const std::unique_ptr<ThreadExecutor> ends =
      slot_->With([](auto& executor) { return std::exchange(executor, nullptr); });
}

Event DependencyExecutor::Enqueue(Label what, std::span<const Event> after, Stream::Work work) {
  Event done = Event::Make(std::move(what), nullptr, records_);
  Events waits;
  for (const Event& event : after) waits.push_back(event);
  auto held = std::allocate_shared<Stream::Work>(MemoryOf<Stream::Work>(records_), std::move(work));
  auto run = [slot = slot_, done, held = std::move(held)](const std::exception_ptr& error) {
    if (error != nullptr) return done.Complete(error);
    Run(*slot, [done, held] {
      std::exception_ptr failure;
      try {
        (*held)();
      } catch (...) {
        failure = std::current_exception();
      }
      *held = nullptr;  // releases the arrays before threads that wait for `done` go on
      done.Complete(failure);
    });
  };
  kvstore::WhenAll(waits, std::move(run), records_);
  return done;
}

void DependencyExecutor::Run(Slot& slot, Task task) {
  const bool posted = slot.With([&](auto& executor) {
    if (executor != nullptr) executor->Post(std::move(task));
    return executor != nullptr;
  });
  if (!posted) task();
}

}  // namespace sluice::worker
