// Signals as events on a thread of their own, so that no code of the
// library runs inside a signal handler, except for one write to a pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace sluice::runtime {

// While an object lives, SIGINT, SIGTERM and SIGUSR1 are held for a SignalWatcher: a handler
// writes each into a pipe. A signal that the program ignores, or for which it has a handler of
// its own, is left to the program (but see Programs). No signal is blocked, since the processes
// that this one starts would inherit that. The destructor of the last object restores the former
// handlers, and raises again the signals that no watcher has received. SIGUSR1 is excepted from
// both where its default would end a process that is about to end anyway. Thread-safe.
class HeldSignals {
 public:
  enum class Programs : uint8_t {
    kStay,    // the program's own handlers stay
    kReplace  // their handlers are replaced and blocked signals unblocked: for processes that run a role only
  };
  explicit HeldSignals(Programs handlers = Programs::kStay);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
};

// A signal that asked this process to end, and when it came.
struct StopRequest {
  int number = 0;  // 0: none
  Time came{};

  // True when signal `other` at `now` repeats this request, and is not a second one: the same signal within
  // 2 s. What a batch system sends to all processes of a job reaches some of them through launch.py, too.
  bool IsSame(int other, Time now) const;
};

// Receives the held signals, also those that came before it was made. `on_signal(number)`
// runs on the watcher's thread, one signal at a time. The destructor ends the thread.
class SignalWatcher {
 public:
  // With a `grace`, the first SIGINT or SIGTERM calls `on_wait(number)` at once, and `on_signal`
  // only when that much time has passed or a second such signal comes (StopRequest).
  explicit SignalWatcher(std::function<void(int)> on_signal, Duration grace = {},
                         std::function<void(int)> on_wait = nullptr);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // Calls `on_signal(0)` on the watcher's thread. Thread-safe.
  void Wake();

 private:
  void Run();
  void OnSignalRead(int number);

  const std::function<void(int)> on_signal_, on_wait_;
  const Duration grace_;
  const HeldSignals held_;
  int stop_fd_ = -1;
  int wake_fd_ = -1;
  StopRequest stop_request_;  // the request whose grace is running
  std::thread thread_;        // last, because it uses all other members
};

const char* SignalName(int number);

}  // namespace sluice::runtime
