// Executors run tasks. Code takes one as an argument, so that simulation and tests
// can run everything on one thread.
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
  // Runs `task` once, at once or later; tasks run in the order posted. Thread-safe. A task must not throw.
  virtual void Post(Task task) = 0;
};

// Runs each task on the calling thread, before Post returns.
class InlineExecutor final : public Executor {
 public:
  void Post(Task task) override { task(); }
};

// Runs tasks on one thread of its own, first in first out. The destructor runs all posted tasks, then joins.
class ThreadExecutor final : public Executor {
 public:
  // Debuggers and `top -H` show `name` (its first 15 characters). `on_start` runs first on the new thread.
  // Throws Error(kResourceExhausted) when the system gives no thread.
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

// Names the calling thread; Linux keeps 15 characters.
void SetThreadName(const std::string& name);

}  // namespace sluice
