// The tasks that were posted to a loop and have not run. Internal to zmq/.
//
// Thread safety: Post, waiting and Close may be called from any thread; all else under the loop's lock.
#pragma once

#include <atomic>
#include <vector>

#include "base/guarded.h"
#include "transport/transport.h"

namespace sluice::transport {

class TaskQueue {
 public:
  struct Posted {
    bool taken = false;     // false: the queue is closed, and `task` unchanged
    bool is_first = false;  // no task has been waiting, so the loop may have to be woken
  };
  Posted Post(Loop::Task&& task);
  // Whether tasks were posted since the last RunAll began to take them.
  bool waiting() const { return waiting_; }
  // From here on Post takes no task.
  void Close();

  // Runs all tasks in the order posted. When one throws, those behind it stay and run at the next call.
  void RunAll(Network& network);
  // Adds a task behind those that RunAll has taken.
  void Defer(Loop::Task&& task) { running_.push_back(std::move(task)); }

 private:
  struct Posts {
    std::vector<Loop::Task> tasks;
    bool closed = false;
  };
  void Take();

  Guarded<Posts> posts_;
  std::atomic<bool> waiting_ = false;
  std::vector<Loop::Task> running_;  // tasks taken from posts_
  size_t next_ = 0;                  // the first of running_ that has not run
};

}  // namespace sluice::transport
