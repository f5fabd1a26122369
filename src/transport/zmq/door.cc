#include "transport/zmq/door.h"

#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::transport {
namespace {

// What a flood can bring in between is what it costs; a look costs three system calls per connection.
constexpr Duration kPause = 10ms;
constexpr Duration kPausePerConnection = 20us;
// When somebody seems to have sent too much: long enough to read what was whole.
constexpr Duration kPauseInDoubt = 1ms;

// 0: of no TCP address.
uint16_t PortOf(std::string_view address) {
  if (!address.starts_with("tcp://")) return 0;
  return static_cast<uint16_t>(ParseInt(address.substr(address.rfind(':') + 1)).value_or(0));
}

}  // namespace

Door::Door(void* context, ZmqSocket* socket, const InflowLimits& limits, OnClosed on_closed)
    : socket_(socket), monitor_(context, ZMQ_PAIR), on_closed_(std::move(on_closed)), inflow_(limits) {
  const std::string address = StrCat("inproc://door-", reinterpret_cast<uintptr_t>(socket->native()));
  constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(socket->native(), address.c_str(), kEvents) != 0) {
    throw Error(ErrorCode::kResourceExhausted, StrCat("cannot watch a socket: ", zmq_strerror(zmq_errno())));
  }
  // With a water mark ZeroMQ's I/O thread would wait for the reader of its events.
  monitor_.Set(ZMQ_RCVHWM, 0);
  monitor_.Set(ZMQ_LINGER, 0);
  monitor_.Connect(address);
}

Door::~Door() {
  zmq_socket_monitor(socket_->native(), nullptr, 0);
}

// An event: two bytes what, four bytes a descriptor; then a frame with the address. See zmq_socket_monitor.
void Door::ReadEvents(Time now) {
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

// An accepted descriptor that is closed already may have another connection's cookie by now. That it closes
// was told before it closed, so this is put right before the last event is read.
void Door::OnEvent(uint16_t what, int connection, std::string_view address, Time now) {
  Close(connection);  // also when one is accepted whose end was told too early, by another thread of ZeroMQ's
  if (what != ZMQ_EVENT_ACCEPTED) return;
  const uint16_t port = PortOf(address);
  const auto tcp = port == 0 ? std::nullopt : FindTcpConnection(connection, port);
  if (port != 0 && !tcp) return;
  open_[connection] = tcp.value_or(TcpConnection{});
  if (!tcp) return;
  DoNotPaceWithinHost(connection);
  inflow_.OnAccepted(connection, now);
}

void Door::Close(int connection) {
  if (open_.erase(connection) == 0) return;
  inflow_.OnClosed(connection);
  on_closed_(connection);
}

void Door::OnMessage(int connection, uint64_t wire_bytes, bool known, Time now) {
  if (!known || !IsOpen(connection)) ReadEvents(now);
  inflow_.OnMessage(connection, wire_bytes);
}

std::vector<std::string> Door::Look(Time now) {
  ReadEvents(now);
  std::vector<int> closed;
  const auto received = [&](int connection) {
    const auto bytes = BytesTaken(open_.at(connection));
    if (!bytes) closed.push_back(connection);
    return bytes.value_or(0);
  };
  std::vector<std::string> cut;
  for (const Inflow::Excess& excess : inflow_.Judge(now, std::exchange(all_read_, false), received)) {
    if (const auto host = Abort(open_.at(excess.connection)))
      cut.push_back(StrCat("cut a connection from ", *host, ": it sent ", HumanBytes(excess.bytes),
                           " that make no message"));
  }
  for (const int connection : closed) Close(connection);
  const Duration pause = std::max(kPause, kPausePerConnection * static_cast<int>(inflow_.size()));
  next_look_ = now + (inflow_.in_doubt() ? kPauseInDoubt : pause);
  return cut;
}

}  // namespace sluice::transport
