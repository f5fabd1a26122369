#include "base/executor.h"

#include <pthread.h>

#include "base/strings.h"
#include "base/threads.h"

namespace sluice {

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

ThreadExecutor::ThreadExecutor(const std::string& name, Task on_start)
    : thread_(StartThread(StrCat("'", name, "'"), [this, name, on_start = std::move(on_start)]() mutable {
        SetThreadName(name);
        if (on_start) on_start();
        Run();
      })) {}

ThreadExecutor::~ThreadExecutor() {
  queue_.Notify([](Queue& q) { q.closed = true; });
  thread_.join();
}

void ThreadExecutor::Post(Task task) {
  RequireNotForkedChild("no operation can begin");
  queue_.Notify([&](Queue& q) { q.tasks.push_back(std::move(task)); });
}

void ThreadExecutor::Run() {
  // The timeout has no meaning: an idle executor waits until its owner destroys it, which closes the queue.
  constexpr Duration kIdle = std::chrono::hours(1);
  bool open = true;
  std::vector<Task> batch;  // swapped with the queue's vector, and given the same capacity
  while (open) {
    queue_.Await(
        kIdle, [](const Queue& q) { return q.closed || !q.tasks.empty(); },
        [&](Queue& q, bool) {
          batch.reserve(q.tasks.capacity());
          batch.swap(q.tasks);
          open = !q.closed || !batch.empty();
        });
    for (Task& task : batch) {
      task();
      task = nullptr;  // destroys its captures before the next task runs
    }
    batch.clear();
  }
}

}  // namespace sluice
