#include "worker/ready_executor.h"

#include <string>
#include <utility>
#include <vector>

#include "kvstore/store_base.h"

namespace sluice::worker {

ReadyExecutor::ReadyExecutor()
    : slot_(std::make_shared<Slot>(std::make_unique<ThreadExecutor>("host arrays"))) {}

ReadyExecutor::~ReadyExecutor() {
  // Ends outside the lock: what it still does may make more work ready.
  const std::unique_ptr<ThreadExecutor> ends =
      slot_->With([](auto& executor) { return std::exchange(executor, nullptr); });
}

Event ReadyExecutor::Enqueue(std::string_view what, std::span<const Event> after,
                             std::function<void()> work) {
  const Event done = Event::Make(std::string(what));
  Events waits;
  for (const Event& event : after) waits.push_back(event);
  kvstore::WhenAll(waits,
                   [slot = slot_, done, work = std::move(work)](const std::exception_ptr& error) mutable {
                     if (error != nullptr) return done.Complete(error);
                     Run(*slot, [done, work = std::move(work)]() mutable {
                       std::exception_ptr failure;
                       try {
                         work();
                       } catch (...) {
                         failure = std::current_exception();
                       }
                       work = nullptr;  // lets go of its arrays before whoever waits goes on
                       done.Complete(failure);
                     });
                   });
  return done;
}

void ReadyExecutor::Run(Slot& slot, Task task) {
  const bool posted = slot.With([&](auto& executor) {
    if (executor != nullptr) executor->Post(std::move(task));
    return executor != nullptr;
  });
  if (!posted) task();
}

}  // namespace sluice::worker
