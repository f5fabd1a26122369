#include "transport/zmq/task_queue.h"

#include <algorithm>
#include <iterator>

#include "base/clock.h"

namespace sluice::transport {

TaskQueue::Posted TaskQueue::Post(Loop::Task&& task) {
  const bool taken = posts_.With([&](Posts& posts) {
    if (!posts.closed) posts.tasks.push_back(std::move(task));
    return !posts.closed;
  });
  return {taken, taken && !waiting_.exchange(true)};
}

void TaskQueue::Close() {
  posts_.With([](Posts& posts) { posts.closed = true; });
  waiting_ = true;
}

void TaskQueue::RunAll(Network& network) {
  Take();
  while (next_ < running_.size()) {
    Loop::Task task = std::move(running_[next_++]);
    task(SteadyClock().Now(), network);
  }
  running_.clear();
  next_ = 0;
}

void TaskQueue::Take() {
  if (!waiting_.exchange(false)) return;
  posts_.With([&](Posts& posts) {
    std::ranges::move(posts.tasks, std::back_inserter(running_));
    posts.tasks.clear();
  });
}

}  // namespace sluice::transport
