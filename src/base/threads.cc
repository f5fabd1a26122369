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

int NewSocket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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
  const int waiting = NewSocket();
  if (waiting < 0) return false;
  const bool connected = connect(waiting, name, length) == 0;
  pollfd closed{waiting, POLLIN, 0};
  if (connected) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
    poll(&closed, 1, static_cast<int>(std::max<int64_t>(left, 0)));
  }
  close(waiting);
  return connected;
}

// -1: it cannot be had, for want of descriptors or of patience.
int Lock() {
  const auto [name, length] = LockName();
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  const int lock = NewSocket();
  if (lock < 0) return -1;
  const Time end = SteadyClock().Now() + kLockPatience;
  while (bind(lock, address, length) != 0 || listen(lock, kWaiting) != 0) {
    const Time now = SteadyClock().Now();
    if (now >= end) {
      close(lock);
      return -1;
    }
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

ThreadReservation::ThreadReservation(int count, const std::string& what_for) : lock_(-1) {
  RequireStacks(what_for);
  lock_ = Lock();
  if (lock_ >= 0) ++reservations;
  try {
    TryThreads(count, what_for);
  } catch (...) {
    Release();
    throw;
  }
}

void ThreadReservation::Release() {
  const int lock = std::exchange(lock_, -1);
  if (lock < 0) return;
  --reservations;
  close(lock);
}

namespace internal {

ThreadStartLock::ThreadStartLock() : lock_(reservations > 0 ? -1 : Lock()) {}

ThreadStartLock::~ThreadStartLock() {
  if (lock_ >= 0) close(lock_);
}

void ThrowNoThread(const std::string& what_for) {
  throw Error(ErrorCode::kResourceExhausted,
              StrCat("no thread for ", what_for, ": the system gives no more; ", ThreadLimitText()));
}

}  // namespace internal
}  // namespace sluice
