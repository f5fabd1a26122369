// The lock between processes is a name in Linux's abstract namespace of sockets (unix(7)): who binds it has
// it, who finds it taken connects to its owner and hears the connection close. It is gone with its process,
// however that ends, and no file is left. Processes of another network namespace have another one.
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

constexpr Duration kPatience = 1min;  // of a thread that is tried out, to be let go
constexpr Duration kGoing = 1s;       // for the kernel to be done with threads that have ended: microseconds
constexpr Duration kLockPatience = 1s;
constexpr int kWaiting = 128;  // processes

std::atomic<int> reservations = 0;  // of this process, which the limits are of as well

struct Started {
  std::vector<pid_t> ids;
  bool may_end = false;
};

// A thread that was joined counts for the system's limits until the kernel has done with it.
void AwaitGone(const std::vector<pid_t>& threads) {
  const Time end = SteadyClock().Now() + kGoing;
  for (const pid_t thread : threads) {
    while (tgkill(getpid(), thread, 0) == 0 && SteadyClock().Now() < end) sched_yield();
  }
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The name and its length for bind(2) and connect(2).
std::pair<sockaddr_un, socklen_t> LockName() {
  const std::string name = StrCat("sluice-threads-of-user-", geteuid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // after a zero byte
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

// Waits for the owner's end, at most `patience`. False: there is none to wait for.
bool AwaitOwner(const sockaddr* name, socklen_t length, Duration patience) {
  const FileDescriptor waiting = NewSocket();
  if (!waiting.valid() || connect(waiting.get(), name, length) != 0) return false;
  pollfd closed{waiting.get(), POLLIN, 0};
  poll(&closed, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience).count()));
  return true;
}

// None: it cannot be had, for want of descriptors or of patience.
FileDescriptor Lock() {
  const auto [name, length] = LockName();
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  FileDescriptor lock = NewSocket();
  if (!lock.valid()) return lock;
  const Time end = SteadyClock().Now() + kLockPatience;
  while (bind(lock.get(), address, length) != 0 || listen(lock.get(), kWaiting) != 0) {
    const Time now = SteadyClock().Now();
    if (now >= end) return {};
    if (!AwaitOwner(address, length, end - now)) sched_yield();  // it is about to listen, or has just gone
  }
  return lock;
}

// Throws what ThreadReservation's constructor throws.
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
      limits = ThreadLimitText();  // while those that were had still run
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
