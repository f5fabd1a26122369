// Reads the events of ZeroMQ's monitor of a bound socket, keeps the set of open connections, and every few
// milliseconds compares the bytes that each TCP connection has brought with the messages read from it.
// Invariants: an entry of open_ has the cookie of the socket that the descriptor named when its acceptance
// was read; a connection is cut only while its cookie is the same. Closing is reported to on_closed_ exactly
// once for each entry. ZmqDriver owns the monitor and calls it under its lock.
#include "transport/zmq/connection_monitor.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::transport {
namespace {

// Pauses between checks. A flood can bring as much memory into use as arrives in one pause; a check costs
// three system calls per connection.
constexpr Duration kPause = 10ms;
constexpr Duration kPausePerConnection = 20us;
// The pause when a connection seems to have sent too much: long enough to read its complete messages.
constexpr Duration kPauseNearLimit = 1ms;
// How many more descriptors are reserved when the soft limit is below the hard one.
constexpr uint64_t kMoreDescriptors = 64;
constexpr Duration kMaxRefusalGap = 1s;  // the longest pause between two refusals of one series
constexpr Duration kPauseOfRaises = 100ms, kPauseOfReports = 1s;
constexpr Duration kPauseOfWarnings = 10s;

// Returns 0 when `address` is no TCP address.
uint16_t PortOf(std::string_view address) {
  if (!address.starts_with("tcp://")) return 0;
  return static_cast<uint16_t>(ParseInt(address.substr(address.rfind(':') + 1)).value_or(0));
}

// Returns why there are no descriptors; empty when the soft limit could be raised.
std::string DescriptorShortage(int error) {
  if (error == ENFILE)
    return "the system has no descriptor for one more connection: /proc/sys/fs/file-max limits them";
  try {
    ReserveDescriptors(1, "one more connection", kMoreDescriptors);
    return {};
  } catch (const Error& refused) {
    return refused.what();
  }
}

}  // namespace

ConnectionMonitor::ConnectionMonitor(void* context, ZmqSocket* socket, const IngressLimits& limits,
                                     Duration patience, OnClosed on_closed)
    : socket_(socket),
      monitor_(context, ZMQ_PAIR),
      patience_(patience),
      on_closed_(std::move(on_closed)),
      ingress_limiter_(limits) {
  const std::string address = StrCat("inproc://connections-", reinterpret_cast<uintptr_t>(socket->native()));
  constexpr int kEvents =
      ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(socket->native(), address.c_str(), kEvents) != 0) {
    throw Error(ErrorCode::kResourceExhausted, StrCat("cannot watch a socket: ", zmq_strerror(zmq_errno())));
  }
  // With a high-water mark ZeroMQ's I/O thread would block until its events are read.
  monitor_.Set(ZMQ_RCVHWM, 0);
  monitor_.Set(ZMQ_LINGER, 0);
  monitor_.Connect(address);
}

ConnectionMonitor::~ConnectionMonitor() {
  zmq_socket_monitor(socket_->native(), nullptr, 0);
}

// An event is a frame of two bytes for its number and four for a descriptor, and a frame with the address;
// see zmq_socket_monitor(3).
void ConnectionMonitor::ReadEvents(Time now) {
  char event[6], address[128];
  while (zmq_recv(monitor_.native(), event, sizeof event, ZMQ_DONTWAIT) == sizeof event) {
    uint16_t what;
    int32_t connection;
    std::memcpy(&what, event, sizeof what);
    std::memcpy(&connection, event + sizeof what, sizeof connection);
    const int size = zmq_recv(monitor_.native(), address, sizeof address, ZMQ_DONTWAIT);
    const auto length = static_cast<size_t>(std::clamp(size, 0, static_cast<int>(sizeof address)));
    OnEvent(what, connection, {address, length}, now);
  }
}

// An accepted descriptor that has been closed already may have another connection's cookie by now. ZeroMQ
// reports the closing before it closes, so the wrong entry is removed before the last event has been read.
void ConnectionMonitor::OnEvent(uint16_t what, int connection, std::string_view address, Time now) {
  if (what == ZMQ_EVENT_ACCEPT_FAILED) {  // `connection` is then an errno
    if (!MeansNoDescriptor(connection)) return;
    // Only recorded: while a connection waits to be accepted, half a million of these events come per second.
    if (!refusals_ || now - refusals_->last > kMaxRefusalGap) refusals_ = {now, now, connection};
    refusals_->last = now;
    refusals_->error = connection;
    return;
  }
  // Also when a descriptor is accepted: with several I/O threads a connection's closing may be reported
  // before its acceptance, and its entry then stays until the number is reused.
  Close(connection);
  if (what != ZMQ_EVENT_ACCEPTED) return;
  refusals_.reset();
  const uint16_t port = PortOf(address);
  const auto tcp = port == 0 ? std::nullopt : FindTcpConnection(connection, port);
  if (port != 0 && !tcp) return;
  open_[connection] = tcp.value_or(TcpConnection{});
  if (!tcp) return;
  DoNotPaceWithinHost(connection);
  ingress_limiter_.OnAccepted(connection, now);
}

// A refused connection waits in the backlog, and ZeroMQ retries without a pause. Any process may have taken
// the descriptors by connecting, which must not end the job: connections that bring no message are cut soon.
// So a shortage is first a warning, and an error only after patience_.
void ConnectionMonitor::ReportRefusals(Time now) {
  if (!refusals_ || now < next_refusal_report_ || now - refusals_->last > kMaxRefusalGap) return;
  const std::string why = DescriptorShortage(refusals_->error);  // slow: may inspect every descriptor
  next_refusal_report_ = now + (why.empty() ? kPauseOfRaises : kPauseOfReports);
  if (why.empty()) return;
  if (now - refusals_->first > patience_) throw Error(ErrorCode::kResourceExhausted, why);
  if (now < next_warning_) return;
  next_warning_ = now + kPauseOfWarnings;
  LOG(WARNING) << WrapLogged(
      StrCat(why, "; connections that bring no message are cut soon, and then others are accepted"));
}

void ConnectionMonitor::Close(int connection) {
  if (open_.erase(connection) == 0) return;
  ingress_limiter_.OnClosed(connection);
  on_closed_(connection);
}

void ConnectionMonitor::OnMessage(int connection, uint64_t wire_bytes, bool known, Time now) {
  if (!known || !IsOpen(connection)) ReadEvents(now);
  ingress_limiter_.OnMessage(connection, wire_bytes);
}

std::vector<std::string> ConnectionMonitor::Check(Time now) {
  ReadEvents(now);
  ReportRefusals(now);
  std::vector<int> closed;
  const auto received = [&](int connection) {
    const auto bytes = BytesTaken(open_.at(connection));
    if (!bytes) closed.push_back(connection);
    return bytes.value_or(0);
  };
  std::vector<std::string> cut;
  for (const IngressLimiter::Excess& excess :
       ingress_limiter_.FindExcess(now, std::exchange(all_read_, false), received)) {
    if (const auto host = Abort(open_.at(excess.connection)))
      cut.push_back(StrCat("cut a connection from ", *host, ": it sent ", HumanBytes(excess.bytes),
                           " that make no message"));
  }
  for (const int connection : closed) Close(connection);
  const Duration pause = std::max(kPause, kPausePerConnection * static_cast<int>(ingress_limiter_.size()));
  next_check_ = now + (ingress_limiter_.near_limit() ? kPauseNearLimit : pause);
  return cut;
}

}  // namespace sluice::transport
