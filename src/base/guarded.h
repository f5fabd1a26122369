// Data that can be reached only with its lock held (after KJ's MutexGuarded). Thread-safe.
//
//   Guarded<std::deque<Task>> queue;
//   queue.With([&](auto& q) { q.push_back(task); });
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace sluice {

template <typename T>
class Guarded {
 public:
  template <typename... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}

  // Returns use(value), run under the lock.
  template <typename F>
  auto With(F&& use) {
    std::lock_guard lock(mutex_);
    return use(value_);
  }
  template <typename F>
  auto With(F&& use) const {
    std::lock_guard lock(mutex_);
    return use(static_cast<const T&>(value_));
  }
  // As With, and wakes every waiter afterwards.
  template <typename F>
  auto Notify(F&& use) {
    struct NotifyAtEnd {
      std::condition_variable& changed;
      ~NotifyAtEnd() { changed.notify_all(); }
    } notify{changed_};
    std::lock_guard lock(mutex_);
    return use(value_);
  }
  // Waits until ready(value) is true, at most `timeout`, and returns use(value,
  // was_ready), run under the lock.
  template <typename Ready, typename F>
  auto Await(Duration timeout, Ready&& ready, F&& use) {
    std::unique_lock lock(mutex_);
    const bool was_ready = changed_.wait_for(lock, timeout, [&] { return ready(value_); });
    return use(value_, was_ready);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  T value_;
};

}  // namespace sluice
