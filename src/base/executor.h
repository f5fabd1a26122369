// Who runs a task. An argument, so that simulation and tests can run everything on one thread.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "base/inline_function.h"

namespace sluice {

using Task = InlineFunction<void(), 64>;

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `task` once, later or at once, in the order posted. Thread-safe. A task must not throw.
  virtual void Post(Task task) = 0;
};

// Runs the task in the caller, before Post returns.
class InlineExecutor final : public Executor {
 public:
  void Post(Task task) override { task(); }
};

// One thread, first in first out. The destructor runs what was posted, then joins.
class ThreadExecutor final : public Executor {
 public:
  // `name` (at most 15 characters) is what debuggers and `top -H` show. `on_start` runs first on the new
  // thread. Throws Error(kResourceExhausted) where the system gives no thread.
  explicit ThreadExecutor(const std::string& name, Task on_start = nullptr);
  ~ThreadExecutor() override;
  void Post(Task task) override;

 private:
  struct Queue {
    std::vector<Task> tasks;
    bool closed = false;
  };
  void Run();
  Guarded<Queue> queue_;
  std::thread thread_;
};

// Names the calling thread.
void SetThreadName(const std::string& name);

}  // namespace sluice
