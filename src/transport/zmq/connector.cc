// Connects DEALERs and watches them: without a monitor a peer that refuses our secret would look like one
// that is not running, and one that is not running like one that is slow. A monitor ends with its dealer's
// first handshake, and is closed when the poll set is rebuilt. ZmqDriver calls everything under the loop's
// lock, for the machine (Network) or when a monitor can be read.
#include "transport/zmq/connector.h"

#include <sys/random.h>
#include <zmq.h>

#include <bit>
#include <cstring>
#include <iomanip>

#include "base/check.h"
#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "transport/address.h"
#include "transport/zmq/tcp_connection.h"

namespace sluice::transport {
namespace {

// libzmq reserves the ids that begin with a zero byte.
RoutingId RandomRoutingId() {
  RoutingId id = 0;
  while ((id & 0xff) == 0) {
    SLUICE_CHECK(getrandom(&id, sizeof id, 0) == sizeof id) << "no randomness";
  }
  return id;
}

}  // namespace

// ZeroMQ's threads open most descriptors later, and when they get none they retry without an error. So
// descriptors are reserved here: whenever the number of connections has doubled, one connection's must be
// available, and as many more as there are connections are reserved if the limits allow it.
void Connector::ReserveDescriptorsForConnections() {
  // A connection has a mailbox, two for its monitor until the handshake, TCP, shared memory, lease returns.
  constexpr uint64_t kDescriptorsPerConnection = 6;
  const uint64_t connections = ++connected_;
  if (!std::has_single_bit(connections)) return;
  ReserveDescriptors(kDescriptorsPerConnection, "one more connection",
                     kDescriptorsPerConnection * (connections + 1));
}

PeerId Connector::Connect(const std::string& address) {
  ValidateAddress(address).OrThrow();
  ReserveDescriptorsForConnections();
  auto peer = std::make_unique<Peer>();
  peer->name = address;
  peer->dealer = std::make_unique<PolledSocket>(loop_.context->native(), ZMQ_DEALER);
  peer->dealer->peer = peer.get();
  peer->polled = peer->dealer.get();
  peer->routing_id = RandomRoutingId();
  ZmqSocket& socket = peer->dealer->socket;
  loop_.Configure(&socket);
  socket.Set(ZMQ_PLAIN_USERNAME, loop_.context->user());
  socket.Set(ZMQ_PLAIN_PASSWORD, loop_.context->password());
  socket.Set(ZMQ_ROUTING_ID,
             std::string_view(reinterpret_cast<const char*>(&peer->routing_id), sizeof(RoutingId)));
  socket.Set(ZMQ_IPV6, 1);
  socket.Set(ZMQ_CONNECT_TIMEOUT, 2000);
  socket.Set(ZMQ_RECONNECT_IVL, 10);
  socket.Set(ZMQ_RECONNECT_IVL_MAX, 500);
  Watch(peer.get());
  socket.Connect(address);
  VLOG(2) << loop_.options.name << " connects to " << address;
  poll_set_.Invalidate();
  return peers_.Add(std::move(peer))->id;
}

void Connector::Watch(Peer* peer) {
  const std::string address = StrCat("inproc://monitor-", std::hex, peer->routing_id);
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (zmq_socket_monitor(peer->dealer->socket.native(), address.c_str(), kEvents) != 0) {
    throw Error(
        ErrorCode::kResourceExhausted,
        StrCat("cannot watch ", peer->name, ": ", zmq_strerror(zmq_errno()), "; ", DescriptorLimitText()));
  }
  peer->monitor = std::make_unique<PolledSocket>(loop_.context->native(), ZMQ_PAIR);
  peer->monitor->peer = peer;
  peer->monitor->is_monitor = true;
  peer->monitor->socket.Set(ZMQ_LINGER, 0);
  peer->monitor->socket.Connect(address);
  peer->tried_since = LoopResources::Now();
  peer->next_warning = peer->tried_since + loop_.options.connect_patience;
}

void Connector::OnNoConnection(Peer* peer) {
  const Time now = LoopResources::Now();
  if (now < peer->next_warning) return;
  peer->next_warning = now + loop_.options.connect_patience;
  const bool ipc = peer->name.starts_with("ipc://");
  if (DescriptorsAreUsedUp())
    throw Error(ErrorCode::kResourceExhausted,
                StrCat("no descriptor for a connection to ", peer->name, ": ", DescriptorLimitText()));
  loop_.Warn(peer,
             StrCat("no connection for ",
                    std::chrono::round<std::chrono::seconds>(now - peer->tried_since).count(), " s; ",
                    ipc ? "ipc sockets reach processes of the same user in the same network namespace only "
                          "(SLUICE_TRANSPORT=auto and no DMLC_LOCAL: tcp)"
                        : "it has ended, or its network cannot be reached from here (DMLC_INTERFACE there "
                          "chooses one, PS_VERBOSE=1 shows which); trying on"));
}

void Connector::ReadMonitor(PolledSocket* polled) {
  Multipart parts;
  if (ReceiveMultipart(polled->socket.native(), false, loop_.options.limits, loop_.memory, &parts) !=
      Multipart::State::kWhole) {
    polled->drained = true;
    return;
  }
  // An event has two bytes for its number and four for a descriptor: see zmq_socket_monitor(3).
  uint16_t event = 0;
  int32_t descriptor = -1;
  if (const Bytes told = parts.envelope.bytes(); told.size() >= sizeof event + sizeof descriptor) {
    std::memcpy(&event, told.data(), sizeof event);
    std::memcpy(&descriptor, told.data() + sizeof event, sizeof descriptor);
  }
  Peer* peer = polled->peer;
  if (event == ZMQ_EVENT_CONNECTED) DoNotPaceWithinHost(descriptor);
  if (event == ZMQ_EVENT_CONNECT_RETRIED) OnNoConnection(peer);
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    loop_.Warn(peer, "it refuses this process, whose job id or secret is another one");
    loop_.machine->OnRefused(LoopResources::Now(), peer->id, loop_.network);
  } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    VLOG(1) << loop_.options.name << " is connected to " << peer->name;
    peer->StopWatching();
    peer->monitor->peer = nullptr;
    poll_set_.Invalidate();
  }
}

bool Connector::Disconnect(PeerId id) {
  Peer* peer = peers_.Find(id);
  if (peer == nullptr) return false;
  VLOG(2) << loop_.options.name << " disconnects from " << peer->name;
  peer->open = false;
  if (!peer->dealer) return true;
  peer->dealer->socket.Set(ZMQ_LINGER, 0);
  poll_set_.Invalidate();
  return true;
}

void Connector::SetLinger(Duration duration) {
  for (const auto& [id, peer] : peers_.all()) {
    if (peer->dealer) peer->dealer->socket.Set(ZMQ_LINGER, peer->open ? Milliseconds(duration) : 0);
  }
}

}  // namespace sluice::transport
