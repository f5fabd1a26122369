// Signals as events on a thread of their own, so that no handler runs inside other code.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace sluice::runtime {

// Keeps SIGINT, SIGTERM and SIGUSR1 from this thread and from all that it starts from now on; they wait for a
// watcher.
void HoldSignals();

// Hears SIGINT, SIGTERM and SIGUSR1, also those that came since HoldSignals. `on_signal(number)` runs on the
// watcher's thread, one signal at a time. The destructor ends the thread; the signals stay held.
class SignalWatcher {
 public:
  // Holds the signals, should nobody have done so.
  explicit SignalWatcher(std::function<void(int)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Run();
  const std::function<void(int)> on_signal_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

const char* SignalName(int number);

}  // namespace sluice::runtime
