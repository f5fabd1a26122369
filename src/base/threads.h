// Threads where the system may give none: an error in words, never the end of the process. Thread safety:
// all.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"

namespace sluice {

// For threads that a library starts, which ends the process, or hangs, where it gets none: tries out whether
// they can run. While one lives no other process of this user starts threads, so that what was tried out is
// still there when the library asks for it. Move-only.
class ThreadReservation {
 public:
  // `count` more threads, `what_for`, on stacks that are large enough: starts and ends as many. Throws
  // Error(kResourceExhausted), which names the limit that allows no more and what to do. Waits a second at
  // most for other processes that start threads, and goes on all the same.
  ThreadReservation(int count, const std::string& what_for);
  ~ThreadReservation() { Release(); }
  ThreadReservation(ThreadReservation&&) = default;
  ThreadReservation& operator=(ThreadReservation&&) = delete;

  void Release();

 private:
  FileDescriptor lock_;
};

namespace internal {
// While one lives no other process of this user starts threads, nor another thread of this one, unless this
// process has a ThreadReservation.
class ThreadStartLock {
 public:
  ThreadStartLock();

 private:
  const FileDescriptor lock_;
};
[[noreturn]] void ThrowNoThread(const std::string& what_for);
}  // namespace internal

// As std::thread's constructor, whose failure is Error(kResourceExhausted).
template <typename Body>
std::thread StartThread(const std::string& what_for, Body&& body) {
  const internal::ThreadStartLock lock;
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error&) {
    internal::ThrowNoThread(what_for);
  }
}

}  // namespace sluice
