// Signals as events on a thread of their own, so that nothing of ours runs inside a handler.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "base/clock.h"

namespace sluice::runtime {

// While one lives, SIGINT, SIGTERM and SIGUSR1 wait for a watcher: a handler writes each into a pipe. A
// signal for which the program has a handler of its own, or which it ignores, is left to the program. No
// signal is blocked: what the process starts would inherit that. The end of the last one brings back what was
// there, and sends again what nobody heard; but for SIGUSR1, which ends no process whose end has begun.
// Thread-safe.
class HeldSignals {
 public:
  enum class Programs : uint8_t {
    kStay,    // the program's handlers
    kGiveWay  // of a process that plays a role and runs nothing of its program: blocked signals come, too
  };
  explicit HeldSignals(Programs handlers = Programs::kStay);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
};

// A signal that asks this process to end, and when it came.
struct StopRequest {
  int number = 0;  // 0: none
  Time came{};

  // Whether another signal is this wish once more, not a second one: what a batch system sends to all
  // processes of a job reaches some of them through launch.py, too.
  bool IsSame(int other, Time now) const;
};

// Hears the held signals, also those that came before it. `on_signal(number)` runs on the watcher's thread,
// one signal at a time. The destructor ends the thread.
class SignalWatcher {
 public:
  // With a `grace`, the first SIGINT or SIGTERM is told when so much time has passed or a second one comes
  // (StopRequest); `on_wait(number)` is called at once.
  explicit SignalWatcher(std::function<void(int)> on_signal, Duration grace = {},
                         std::function<void(int)> on_wait = nullptr);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // `on_signal(0)` on the watcher's thread.
  void Wake();

 private:
  void Run();
  void Hear(int number);

  const std::function<void(int)> on_signal_, on_wait_;
  const Duration grace_;
  const HeldSignals held_;
  int stop_fd_ = -1;
  int wake_fd_ = -1;
  StopRequest stop_request_;  // whose grace runs
  std::thread thread_;        // last: it uses all the others
};

const char* SignalName(int number);

}  // namespace sluice::runtime
