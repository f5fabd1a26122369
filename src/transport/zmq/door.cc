#include "transport/zmq/door.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "transport/address.h"

namespace sluice::transport {
namespace {

// What a flood can bring in between is what it costs; a look costs two system calls per connection.
constexpr Duration kPause = 10ms;
constexpr Duration kPausePerConnection = 20us;
// When somebody seems to have sent too much: long enough to read what was whole.
constexpr Duration kPauseInDoubt = 1ms;

// Bytes of a TCP connection that its owner has read; 0 for anything else.
uint64_t BytesTaken(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  int waiting = 0;
  if (ioctl(fd, SIOCINQ, &waiting) != 0) return 0;
  const auto unread = static_cast<uint64_t>(waiting);
  return info.tcpi_bytes_received > unread ? info.tcpi_bytes_received - unread : 0;
}

// Resets a TCP connection and forgets what it has received: see connect(2). After a mere shutdown its owner
// would still read all that.
void Abort(int fd) {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(fd, &nobody, sizeof nobody);
}

}  // namespace

Door::Door(void* context, ZmqSocket* socket, const InflowLimits& limits)
    : socket_(socket), monitor_(context, ZMQ_PAIR), inflow_(limits) {
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
  char event[6];
  while (zmq_recv(monitor_.native(), event, sizeof event, ZMQ_DONTWAIT) == sizeof event) {
    uint16_t what;
    int32_t connection;
    std::memcpy(&what, event, sizeof what);
    std::memcpy(&connection, event + sizeof what, sizeof connection);
    if (what == ZMQ_EVENT_ACCEPTED) {
      inflow_.OnAccepted(connection, now);
    } else {
      inflow_.OnClosed(connection);
    }
    zmq_recv(monitor_.native(), nullptr, 0, ZMQ_DONTWAIT);
  }
}

void Door::OnMessage(int connection, uint64_t wire_bytes, Time now) {
  if (!inflow_.Knows(connection)) ReadEvents(now);
  inflow_.OnMessage(connection, wire_bytes);
}

std::vector<std::string> Door::Look(Time now) {
  ReadEvents(now);
  std::vector<std::string> cut;
  for (const Inflow::Excess& excess : inflow_.Judge(now, std::exchange(all_read_, false), BytesTaken)) {
    cut.push_back(StrCat("cut a connection from ", PeerHost(excess.connection), ": it sent ",
                         HumanBytes(excess.bytes), " that make no message"));
    // Should ZeroMQ have closed it this moment and accepted another under its number, that one connects
    // again.
    Abort(excess.connection);
  }
  const Duration pause = std::max(kPause, kPausePerConnection * static_cast<int>(inflow_.size()));
  next_look_ = now + (inflow_.in_doubt() ? kPauseInDoubt : pause);
  return cut;
}

}  // namespace sluice::transport
