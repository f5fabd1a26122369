// A mutex and its lock, with the attributes that Clang's thread safety analysis reads
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html). Other compilers skip them.
//
//   Mutex mutex_;
//   std::vector<Event> events_ SLUICE_GUARDED_BY(mutex_);
//   void Grow() SLUICE_REQUIRES(mutex_);
//
// Code that reads events_ or calls Grow without the lock fails in `make ci` (tools/check_locks.py).
// Guarded<T> (base/guarded.h) is simpler where all data behind one mutex is one object.
#pragma once

#include <mutex>

#include "base/fork.h"

#ifdef __clang__
#define SLUICE_ATTRIBUTE(...) __attribute__((__VA_ARGS__))
#else
#define SLUICE_ATTRIBUTE(...)
#endif

#define SLUICE_CAPABILITY(name) SLUICE_ATTRIBUTE(capability(name))
#define SLUICE_SCOPED_CAPABILITY SLUICE_ATTRIBUTE(scoped_lockable)
#define SLUICE_GUARDED_BY(mutex) SLUICE_ATTRIBUTE(guarded_by(mutex))
#define SLUICE_REQUIRES(...) SLUICE_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SLUICE_ACQUIRE(...) SLUICE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SLUICE_RELEASE(...) SLUICE_ATTRIBUTE(release_capability(__VA_ARGS__))
#define SLUICE_RETURN_CAPABILITY(mutex) SLUICE_ATTRIBUTE(lock_returned(mutex))
#define SLUICE_TRY_ACQUIRE(...) SLUICE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define SLUICE_NOT_ANALYSED SLUICE_ATTRIBUTE(no_thread_safety_analysis)

namespace sluice {

class SLUICE_CAPABILITY("mutex") Mutex {
 public:
  // Throws Error(kFailedPrecondition) in a forked child (base/fork.h) when it is locked: a thread that is not
  // there may hold it.
  void lock() SLUICE_ACQUIRE() {
    if (!InForkedChild()) return mutex_.lock();
    if (!mutex_.try_lock()) RequireNotForkedChild("a lock cannot be taken");
  }
  void unlock() SLUICE_RELEASE() { mutex_.unlock(); }
  bool try_lock() SLUICE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

// Holds `mutex` until the end of its scope. M is Mutex, or another class with the same attributes.
template <typename M = Mutex>
class SLUICE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(M& mutex) SLUICE_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  // Takes over the lock that the caller has got with try_lock.
  MutexLock(M& mutex, std::adopt_lock_t) SLUICE_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() SLUICE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  M& mutex_;
};

}  // namespace sluice
