// Starts threads where the system may refuse them: a refusal becomes an error that names the limit, and never
// ends the process. Everything here is thread-safe, except that one ThreadReservation has one owner.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"
#include "base/fork.h"

namespace sluice {

// Checks that a library (ZeroMQ, OpenMP) will get the threads that it starts: without them the library would
// end the process or hang. While a reservation lives, other Sluice processes of this user start no threads,
// so that the threads that were tried out are still available when the library asks for them. Move-only.
class ThreadReservation {
 public:
  // Starts `count` threads and ends them again, after checking that thread stacks are large enough. Throws
  // Error(kResourceExhausted) that names `what_for`, the limit and what to do, when the system gives fewer.
  // Waits at most one second for other processes that start threads, and then goes on without the lock.
  ThreadReservation(int count, const std::string& what_for);
  ~ThreadReservation() { Release(); }
  ThreadReservation(ThreadReservation&&) = default;
  ThreadReservation& operator=(ThreadReservation&&) = delete;

  // Lets other processes start threads again.
  void Release();

 private:
  FileDescriptor lock_;  // see threads.cc; invalid when the lock could not be taken
};

namespace internal {
// While one lives, neither other Sluice processes of this user nor other threads of this process start
// threads. It takes no lock while this process has a ThreadReservation, which holds the lock already.
class ThreadStartLock {
 public:
  ThreadStartLock();

 private:
  const FileDescriptor lock_;
};
[[noreturn]] void ThrowNoThread(const std::string& what_for);
}  // namespace internal

// Starts a thread that runs `body`. Throws Error(kResourceExhausted) that names `what_for` and the limits
// when the system refuses, where std::thread's constructor would throw std::system_error, and
// Error(kFailedPrecondition) in a forked child (base/fork.h).
template <typename Body>
std::thread StartThread(const std::string& what_for, Body&& body) {
  const internal::ThreadStartLock lock;
  internal::ThreadBegins();
  try {
    return std::thread([body = std::forward<Body>(body)]() mutable {
      body();
      internal::ThreadEnds();
    });
  } catch (const std::system_error&) {
    internal::ThreadEnds();
    internal::ThrowNoThread(what_for);
  }
}

}  // namespace sluice
