#include "yardstick.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "base/strings.h"
#include "runtime/process.h"
#include "sluice/error.h"

namespace sluice::bench {
namespace {

[[noreturn]] void Serve(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  runtime::KeepMessageMemory();  // as every process of a job does
  try {
    RawOptions options;
    while (recv(socket, &options, sizeof options, 0) == sizeof options) {
      const RawFigures figures = MeasureRaw(options);
      if (send(socket, &figures, sizeof figures, MSG_NOSIGNAL) != sizeof figures) break;
    }
    _exit(0);
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    _exit(1);
  }
}

}  // namespace

Yardstick::Yardstick() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 || (pid_ = fork()) < 0) {
    throw Error(ErrorCode::kUnavailable, StrCat("no process to measure the machine: ", std::strerror(errno)));
  }
  if (pid_ == 0) {
    close(ends[0]);
    Serve(ends[1]);
  }
  close(ends[1]);
  socket_ = ends[0];
}

Yardstick::~Yardstick() {
  close(socket_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

RawFigures Yardstick::Measure(const RawOptions& options) {
  RawFigures figures;
  if (send(socket_, &options, sizeof options, MSG_NOSIGNAL) != sizeof options ||
      recv(socket_, &figures, sizeof figures, 0) != sizeof figures) {
    throw Error(ErrorCode::kUnavailable, "the process that measures the machine has ended");
  }
  return figures;
}

}  // namespace sluice::bench
