// The lock of the thread that drives a loop. Internal to zmq/.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace sluice::transport {

// A mutex whose holder may call TryLock again; the call then returns false. A std::binary_semaphore would
// allow that, too, but costs a system call at every release (libstdc++ 12).
class LoopLock {
 public:
  bool TryLock() {
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id() || !mutex_.try_lock())
      return false;
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  void Lock() {
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  void Unlock() {
    owner_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

}  // namespace sluice::transport
