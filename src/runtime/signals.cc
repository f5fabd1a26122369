// Signal handling: a handler writes the signal's number
// into a pipe, from which SignalWatcher's thread reads it.
//
// Invariants: the handler calls async-signal-safe functions only and touches nothing but atomics; the
// pipe lives as long as the process, since a handler may run at any moment; no signal is blocked. A
// child that was forked without exec shares its parent's pipe and must not write to it; it recognises
// that by `owner`, the parent's pid. HeldSignals may be made and destroyed on any thread.
#include "runtime/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/executor.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/strings.h"
#include "base/threads.h"
#include "sluice/error.h"

namespace sluice::runtime {

namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};

// The state of the handlers. There is one for the process, because the kernel installs handlers
// for a process. The pipe is made once and never closed, because a handler may run at any moment.
struct Handling {
  Mutex mutex;
  int holders SLUICE_GUARDED_BY(mutex) = 0;
  std::array<bool, kSignals.size()> taken SLUICE_GUARDED_BY(mutex) = {};
  std::array<struct sigaction, kSignals.size()> before SLUICE_GUARDED_BY(mutex);  // set where `taken`
  std::atomic<int> read_end = -1, write_end = -1;
  std::atomic<pid_t> owner = 0;
};
Handling handling;

void OnSignal(int number) {
  const int error = errno;
  if (getpid() != handling.owner.load()) {
    // This is a child that was forked and has not called exec.
    // The pipe is its parent's, so the signal ends the child.
    signal(number, SIG_DFL);
    raise(number);
  } else {
    const auto byte = static_cast<unsigned char>(number);
    // When the pipe is full, it holds enough signals already.
    [[maybe_unused]] const ssize_t written = write(handling.write_end.load(), &byte, 1);
  }
  errno = error;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == OnSignal;
}

bool IsDefault(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool IsIgnored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

void Install(size_t i, HeldSignals::Programs handlers) SLUICE_REQUIRES(handling.mutex) {
  struct sigaction action {};
  SLUICE_CHECK(sigaction(kSignals[i], nullptr, &action) == 0);
  if (IsOurs(action)) {
    if (handling.taken[i]) return;
    action.sa_handler = SIG_DFL;  // in a forked child, this is the parent's handler
  }
  handling.taken[i] = handlers == HeldSignals::Programs::kReplace ? !IsIgnored(action) : IsDefault(action);
  if (!handling.taken[i]) return;
  handling.before[i] = action;
  action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;  // interrupted system calls of the program are restarted
  sigfillset(&action.sa_mask);
  SLUICE_CHECK(sigaction(kSignals[i], &action, nullptr) == 0);
}

void Remove(size_t i) SLUICE_REQUIRES(handling.mutex) {
  // This handler stays: a request for the state (SIGUSR1)
  // must not end a process that is about to end anyway.
  if (kSignals[i] == SIGUSR1 && IsDefault(handling.before[i])) return;
  if (!std::exchange(handling.taken[i], false)) return;
  struct sigaction now {};
  SLUICE_CHECK(sigaction(kSignals[i], nullptr, &now) == 0);
  if (!IsOurs(now)) return;  // the program has installed one of its own meanwhile
  SLUICE_CHECK(sigaction(kSignals[i], &handling.before[i], nullptr) == 0);
}

// The next signal in the pipe; 0 when it is empty.
int NextSignal() {
  unsigned char byte = 0;
  return read(handling.read_end.load(), &byte, 1) == 1 ? byte : 0;
}

}  // namespace

HeldSignals::HeldSignals(Programs handlers) {
  const MutexLock lock(handling.mutex);
  if (handling.owner.load() != getpid()) {  // the first object of this process
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      throw Error(ErrorCode::kResourceExhausted,
                  StrCat("no descriptors to hear signals by: ", DescriptorLimitText()));
    handling.read_end = ends[0];
    handling.write_end = ends[1];
    handling.holders = 0;
    handling.taken = {};
    handling.owner = getpid();
  }
  // Discards SIGUSR1 that came while no object existed.
  if (handling.holders++ == 0) {
    while (NextSignal() != 0) {
    }
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    Install(i, handlers);
    sigaddset(&signals, kSignals[i]);
  }
  if (handlers == Programs::kReplace) SLUICE_CHECK(pthread_sigmask(SIG_UNBLOCK, &signals, nullptr) == 0);
}

HeldSignals::~HeldSignals() {
  const MutexLock lock(handling.mutex);
  if (--handling.holders > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) Remove(i);
  while (const int number = NextSignal()) {
    if (number != SIGUSR1) kill(getpid(), number);
  }
}

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal, Duration grace,
                             std::function<void(int)> on_wait)
    : on_signal_(std::move(on_signal)), on_wait_(std::move(on_wait)), grace_(grace) {
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0 || wake_fd_ < 0) {
    const std::string limits = DescriptorLimitText();
    for (const int fd : {stop_fd_, wake_fd_}) {
      if (fd >= 0) close(fd);
    }
    throw Error(ErrorCode::kResourceExhausted, StrCat("no descriptors to hear signals by: ", limits));
  }
  thread_ = StartThread("signals", [this] {
    SetThreadName("signals");
    Run();
  });
}

SignalWatcher::~SignalWatcher() {
  if (thread_.get_id() == std::this_thread::get_id()) {  // on_signal_ has called exit
    thread_.detach();
    return;
  }
  const uint64_t one = 1;
  SLUICE_CHECK(write(stop_fd_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(stop_fd_);
  close(wake_fd_);
}

void SignalWatcher::Wake() {
  const uint64_t one = 1;
  SLUICE_CHECK(write(wake_fd_, &one, sizeof one) == sizeof one);
}

void SignalWatcher::Run() {
  pollfd fds[3] = {{handling.read_end, POLLIN, 0}, {wake_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  while (true) {
    // poll has no timeout on purpose, except while a grace runs:
    // the thread waits for a signal or for the destructor.
    int timeout = -1;
    if (stop_request_.number != 0) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(stop_request_.came + grace_ - SteadyClock().Now());
      timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
    }
    const int ready = poll(fds, 3, timeout);
    if (ready < 0) continue;
    if (fds[2].revents != 0) return;
    if (stop_request_.number != 0 && SteadyClock().Now() >= stop_request_.came + grace_)
      on_signal_(std::exchange(stop_request_, {}).number);
    if (ready == 0) continue;
    uint64_t count = 0;
    if (read(wake_fd_, &count, sizeof count) == sizeof count) on_signal_(0);
    if (const int number = NextSignal()) OnSignalRead(number);
  }
}

void SignalWatcher::OnSignalRead(int number) {
  const Time now = SteadyClock().Now();
  const bool ends = number == SIGINT || number == SIGTERM;
  if (ends && stop_request_.IsSame(number, now)) return;
  if (!ends || grace_ <= Duration::zero() || stop_request_.number != 0) {
    if (ends) stop_request_ = {};
    return on_signal_(number);
  }
  stop_request_ = {number, now};
  if (on_wait_) on_wait_(number);
}

bool StopRequest::IsSame(int other, Time now) const {
  constexpr Duration kOnce = 2s;
  return number != 0 && number == other && now < came + kOnce;
}

const char* SignalName(int number) {
  switch (number) {
    case SIGINT:
      return "SIGINT (Ctrl-C)";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
  }
  return "a signal";
}

}  // namespace sluice::runtime
