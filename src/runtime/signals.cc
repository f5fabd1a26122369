#include "runtime/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/executor.h"

namespace sluice::runtime {

namespace {

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, number);
  return signals;
}

}  // namespace

void HoldSignals() {
  const sigset_t signals = OurSignals();
  SLUICE_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal) : on_signal_(std::move(on_signal)) {
  HoldSignals();
  const sigset_t signals = OurSignals();
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  SLUICE_CHECK(signal_fd_ >= 0 && stop_fd_ >= 0) << "signalfd/eventfd: errno " << errno;
  thread_ = std::thread([this] {
    SetThreadName("signals");
    Run();
  });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  SLUICE_CHECK(write(stop_fd_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void SignalWatcher::Run() {
  pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  while (true) {
    // Without a deadline on purpose: it waits for a person, or for its own destructor.
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof info) == sizeof info) on_signal_(static_cast<int>(info.ssi_signo));
  }
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
