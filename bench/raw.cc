#include "raw.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/strings.h"
#include "raw_parts.h"
#include "sluice/error.h"

namespace sluice::bench {

void Broken(const char* what) {
  throw Error(ErrorCode::kUnavailable, StrCat("raw measurement: ", what, " failed: ", std::strerror(errno)));
}

double Now() {
  return ToSeconds(std::chrono::steady_clock::now().time_since_epoch());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Child::Child(const std::function<void()>& body) : pid_(fork()) {
  if (pid_ < 0) Broken("fork");
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    body();
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

Child::~Child() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

double Child::CpuSeconds() const {
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0)
    Broken("clock of a process");
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

namespace {

LoopFigures ZmqLoop(RawOptions options, Echo echo) {
  constexpr size_t kMessage = 1 << 20;
  if (options.calls == 0) {
    options.message_bytes = std::min(options.message_bytes, kMessage);
    return ZmqBothWays(options, MessagesInFlight(options), echo);
  }
  const size_t share = std::max<size_t>(options.call_bytes / options.receivers, 1);
  options.message_bytes = std::min(share, kMessage);
  const size_t in_flight =
      options.calls * options.receivers * ((share + options.message_bytes - 1) / options.message_bytes);
  options.working_set = in_flight * options.message_bytes;
  return ZmqBothWays(options, in_flight, echo);
}

}  // namespace

// Streams and memory have no messages, so they are measured in pieces of at least 64 KiB even if the messages
// are smaller. ZeroMQ is slower with messages of more than 4 MiB, so its messages are at most that large.
RawFigures MeasureRaw(const RawOptions& options) {
  RawOptions stream = options, zmq = options;
  stream.message_bytes = std::max<size_t>(options.message_bytes, 64 << 10);
  zmq.message_bytes = std::min<size_t>(options.message_bytes, 4 << 20);
  RawFigures figures;
  figures.zmq_loop = ZmqLoop(options, Echo::kSame);
  if (options.calls > 0) figures.zmq_least = ZmqLoop(options, Echo::kSums);
  if (options.only_loops) return figures;
  figures.two_streams_gbit = TwoStreams(stream);
  figures.zmq_gbit = ZmqOneWay(zmq, Receiver::kDrops);
  figures.zmq_summed_gbit = ZmqOneWay(zmq, Receiver::kAddsUp);
  figures.zmq_both_ways_gbit = ZmqBothWays(zmq, MessagesInFlight(zmq), Echo::kSame).gbit;
  if (options.round_trips) figures.zmq_rtt_us = ZmqRoundTrip(zmq);
  figures.copy = CopyRates(stream);
  figures.add = AddRates(stream);
  return figures;
}

}  // namespace sluice::bench
