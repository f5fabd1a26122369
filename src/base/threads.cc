// Starts threads one at a time among all Sluice processes of a user, so that a trial of threads
// (ThreadReservation) still holds when the threads are needed. The lock between the processes is a name in
// Linux's abstract socket namespace (unix(7)): the process that has bound the name holds the lock. A process
// that finds the name taken connects to its owner and waits until that connection closes. The kernel frees
// the name when its process ends, however that happens, and no file is left. Processes of another network
// namespace have a lock of their own. Any thread may call; tools/launcher/limits.py takes the same lock.
#include "base/threads.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr Duration kPatience = 1min;  // after which a thread that was tried out ends by itself
constexpr Duration kThreadExitPatience =
    1s;  // for the kernel to release ended threads; it needs microseconds
constexpr Duration kLockPatience = 1s;
constexpr int kBacklog = 128;  // processes that may wait for the lock: listen(2)'s backlog

// Set once the lock could not be had in time: somebody keeps it, and this process never waits for it again.
std::atomic<bool> given_up = false;
std::atomic<int> reservations = 0;  // ThreadReservations of this process that hold the lock

struct Started {
  std::vector<pid_t> ids;
  bool may_end = false;
};

// Waits until the kernel has released `threads`: a joined thread still counts for
// the system's limits until then.
void AwaitGone(const std::vector<pid_t>& threads) {
  const Time end = SteadyClock().Now() + kThreadExitPatience;
  for (const pid_t thread : threads) {
    while (tgkill(getpid(), thread, 0) == 0 && SteadyClock().Now() < end) sched_yield();
  }
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns the lock's address and the address's length, for bind(2) and connect(2).
std::pair<sockaddr_un, socklen_t> LockName() {
  const std::string name = StrCat("sluice-threads-of-user-", geteuid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a first byte of 0 makes it abstract
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

// Waits at most `patience` for the lock's owner to release it. Returns false when
// there is no owner to wait for.
bool AwaitOwner(const sockaddr* name, socklen_t length, Duration patience) {
  const FileDescriptor waiting = NewSocket();
  if (!waiting.valid() || connect(waiting.get(), name, length) != 0) return false;
  pollfd closed{waiting.get(), POLLIN, 0};
  poll(&closed, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count()));
  return true;
}

// Takes the lock. Returns an invalid descriptor when no socket can be opened, or when another process keeps
// the lock for longer than kLockPatience.
FileDescriptor Lock() {
  const auto [name, length] = LockName();
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  FileDescriptor lock = NewSocket();
  if (!lock.valid()) return lock;
  const Time end = SteadyClock().Now() + kLockPatience;
  while (bind(lock.get(), address, length) != 0 || listen(lock.get(), kBacklog) != 0) {
    const Time now = SteadyClock().Now();
    if (now >= end) given_up = true;
    if (given_up) return {};
    if (!AwaitOwner(address, length, end - now)) sched_yield();  // the owner is new, or has just gone
  }
  return lock;
}

// Starts and ends `count` threads. Throws as ThreadReservation's constructor does.
void TryThreads(int count, const std::string& what_for) {
  Guarded<Started> all;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(std::max(count, 0)));
  std::string limits;
  for (int i = 0; i < count && limits.empty(); ++i) {
    try {
      threads.emplace_back([&all] {
        all.With([](Started& s) { s.ids.push_back(gettid()); });
        all.Await(
            kPatience, [](const Started& s) { return s.may_end; }, [](Started&, bool) {});
      });
    } catch (const std::system_error&) {
      limits = ThreadLimitText();  // read while the other threads still run, so that usage is shown
    }
  }
  all.Notify([](Started& s) { s.may_end = true; });
  for (std::thread& thread : threads) thread.join();
  AwaitGone(all.With([](const Started& s) { return s.ids; }));
  if (limits.empty()) return;
  throw Error(ErrorCode::kResourceExhausted,
              StrCat("too few threads for ", what_for, ": ", count, " more are needed, and the system gives ",
                     threads.size(), "; ", limits));
}

}  // namespace

ThreadReservation::ThreadReservation(int count, const std::string& what_for) {
  RequireStacks(what_for);
  lock_ = Lock();
  if (lock_.valid()) ++reservations;
  try {
    TryThreads(count, what_for);
  } catch (...) {
    Release();
    throw;
  }
}

void ThreadReservation::Release() {
  if (!lock_.valid()) return;
  --reservations;
  lock_.Reset();
}

namespace internal {

ThreadStartLock::ThreadStartLock() : lock_(reservations > 0 ? FileDescriptor() : Lock()) {}

void ThrowNoThread(const std::string& what_for) {
  throw Error(ErrorCode::kResourceExhausted,
              StrCat("no thread for ", what_for, ": the system gives no more; ", ThreadLimitText()));
}

}  // namespace internal
}  // namespace sluice
