// Signals as events on a thread of their own, so that no handler runs inside other code.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace sluice::runtime {

// Takes over SIGINT, SIGTERM and SIGUSR1 from its construction on: create it before any other thread, which
// then inherit the mask. `on_signal(number)` runs on the watcher's thread, one signal at a time. The
// destructor ends the thread; the signals stay blocked.
class SignalWatcher {
 public:
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
