// A mutex for critical sections of a few instructions that many threads enter often. Locking and unlocking a
// free mutex is inline and makes no system call; a thread that has to wait sleeps. This is the second mutex
// of U. Drepper, "Futexes Are Tricky" (2011).
#pragma once

#include <atomic>

#include "base/mutex.h"

namespace sluice {

class SLUICE_CAPABILITY("mutex") QuickMutex {
 public:
  QuickMutex() = default;
  QuickMutex(const QuickMutex&) = delete;
  QuickMutex& operator=(const QuickMutex&) = delete;

  void lock() SLUICE_ACQUIRE() {
    int found = kFree;
    if (!state_.compare_exchange_strong(found, kTaken, std::memory_order_acquire)) Await();
  }
  void unlock() SLUICE_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  static constexpr int kFree = 0, kTaken = 1, kAwaited = 2;
  void Await() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
      state_.wait(kAwaited, std::memory_order_relaxed);
  }
  std::atomic<int> state_ = kFree;
};

}  // namespace sluice
