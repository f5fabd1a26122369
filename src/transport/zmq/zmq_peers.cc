// The sockets of a loop and the peers behind them: the bound ROUTER, and a DEALER with a monitor for every
// Connect. This file configures, binds and connects the sockets, and calls OnRefused and OnRoom.
// Invariant: a peer of the ROUTER is known by its routing id, and keeps its PeerId when it reconnects, until
// peer_table_ forgets it. Everything runs under lock_, called by the machine (Network) or by zmq_driver.cc;
// only Bind is called before the loop's thread starts.
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iomanip>

#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "transport/address.h"
#include "transport/zmq/tcp_connection.h"
#include "transport/zmq/zmq_driver.h"

namespace sluice::transport {
namespace {

// Unread messages of one peer that ZeroMQ queues.
constexpr int kMaxUnread = 1000;
constexpr uint64_t kFraming = uint64_t{1} << 20;

int Milliseconds(Duration d) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

// libzmq reserves the ids that begin with a zero byte.
RoutingId RandomRoutingId() {
  RoutingId id = 0;
  while ((id & 0xff) == 0) {
    SLUICE_CHECK(getrandom(&id, sizeof id, 0) == sizeof id) << "no randomness";
  }
  return id;
}

IngressLimits IngressLimitsOf(const ZmqLoopOptions& options) {
  IngressLimits limits;
  // One whole message, its frame headers, and what is in transit between ZeroMQ's threads.
  limits.max_partial = options.limits.max_message_bytes + kFraming;
  limits.max_unread = options.max_queued_bytes;
  limits.max_unauthenticated = options.max_unauthenticated_bytes;
  limits.heartbeat_interval = options.heartbeat_interval;
  return limits;
}

}  // namespace

void ZmqDriver::Configure(ZmqSocket* socket) const {
  socket->Set(ZMQ_SNDHWM, 0);  // a water mark drops by message count and silently; Send bounds bytes instead
  socket->Set(ZMQ_RCVHWM, 0);
  socket->Set(ZMQ_MAXMSGSIZE, static_cast<int64_t>(std::max(options_.limits.max_frame_bytes,
                                                            options_.limits.max_envelope_bytes)));
  socket->Set(ZMQ_LINGER, Milliseconds(options_.linger));
  socket->Set(ZMQ_HANDSHAKE_IVL, Milliseconds(options_.handshake_timeout));
  socket->Set(ZMQ_HEARTBEAT_IVL, Milliseconds(options_.heartbeat_interval));
  socket->Set(ZMQ_HEARTBEAT_TIMEOUT, Milliseconds(options_.heartbeat_timeout));
  socket->Set(ZMQ_TCP_KEEPALIVE, 1);
  socket->Set(ZMQ_TCP_KEEPALIVE_IDLE, 60);
}

void ZmqDriver::Bind() {
  if (options_.bind.empty()) return;
  router_ = std::make_unique<Channel>(context_->native(), ZMQ_ROUTER);
  ZmqSocket& socket = router_->socket;
  Configure(&socket);
  // 0 until Linger() sets it at the end: libzmq would keep the messages for connections that have closed.
  socket.Set(ZMQ_LINGER, 0);
  socket.Set(ZMQ_PLAIN_SERVER, 1);
  socket.Set(ZMQ_ZAP_DOMAIN, std::string_view("sluice"));
  socket.Set(ZMQ_ROUTER_MANDATORY, 1);  // a send to a peer that is gone fails
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);   // a peer may reconnect before its old connection is found dead
  socket.Set(ZMQ_RCVHWM, kMaxUnread);   // then ZeroMQ stops reading from that peer; nothing is dropped
  constexpr Duration kPatienceMargin = 5s;
  connection_monitor_ = std::make_unique<ConnectionMonitor>(
      context_->native(), &socket, IngressLimitsOf(options_), options_.handshake_timeout + kPatienceMargin,
      [this](int connection) { peer_table_.OnClosed(connection); });
  for (const std::string& address : options_.bind) {
    ValidateAddress(address).OrThrow();
    if (address.starts_with("ipc://")) socket.Set(ZMQ_IPC_FILTER_UID, static_cast<int>(geteuid()));
    // With ZMQ_IPV6 an IPv4 address would be reported as [::ffff:127.0.0.1].
    socket.Set(ZMQ_IPV6, address.find('[') != std::string::npos ? 1 : 0);
    socket.Bind(address, options_.bind_advice);
    addresses_.push_back(socket.LastEndpoint());
    VLOG(1) << options_.name << " at " << addresses_.back()
            << (options_.bind_reason.empty() ? "" : ": " + options_.bind_reason);
  }
}

// ZeroMQ's threads open most descriptors later, and when they get none they retry without an error. So
// descriptors are reserved here: whenever the number of connections has doubled, one connection's must be
// available, and as many more as there are connections are reserved if the limits allow it.
void ZmqDriver::ReserveDescriptorsForConnections() {
  // A connection has a mailbox, two for its monitor until the handshake, TCP, shared memory, lease returns.
  constexpr uint64_t kDescriptorsPerConnection = 6;
  const uint64_t connections = ++connected_;
  if (!std::has_single_bit(connections)) return;
  ReserveDescriptors(kDescriptorsPerConnection, "one more connection",
                     kDescriptorsPerConnection * (connections + 1));
}

PeerId ZmqDriver::Connect(const std::string& address) {
  ValidateAddress(address).OrThrow();
  ReserveDescriptorsForConnections();
  auto peer = std::make_unique<Peer>();
  peer->name = address;
  peer->dealer = std::make_unique<Channel>(context_->native(), ZMQ_DEALER);
  peer->dealer->peer = peer.get();
  peer->routing_id = RandomRoutingId();
  ZmqSocket& socket = peer->dealer->socket;
  Configure(&socket);
  socket.Set(ZMQ_PLAIN_USERNAME, context_->user());
  socket.Set(ZMQ_PLAIN_PASSWORD, context_->password());
  socket.Set(ZMQ_ROUTING_ID,
             std::string_view(reinterpret_cast<const char*>(&peer->routing_id), sizeof(RoutingId)));
  socket.Set(ZMQ_IPV6, 1);
  socket.Set(ZMQ_CONNECT_TIMEOUT, 2000);
  socket.Set(ZMQ_RECONNECT_IVL, 10);
  socket.Set(ZMQ_RECONNECT_IVL_MAX, 500);
  Watch(peer.get());
  socket.Connect(address);
  VLOG(2) << options_.name << " connects to " << address;
  channels_changed_ = true;
  const PeerId id = Add(std::move(peer))->id;
  if (shared_) Send(id, LoopMessage(wire::GetMemory{}));
  return id;
}

// Starts a monitor of the peer's dealer. Without it a peer that refuses our secret would look like one that
// is not running, and one that is not running like one that is slow.
void ZmqDriver::Watch(Peer* peer) {
  const std::string address = StrCat("inproc://monitor-", std::hex, peer->routing_id);
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (zmq_socket_monitor(peer->dealer->socket.native(), address.c_str(), kEvents) != 0) {
    throw Error(
        ErrorCode::kResourceExhausted,
        StrCat("cannot watch ", peer->name, ": ", zmq_strerror(zmq_errno()), "; ", DescriptorLimitText()));
  }
  peer->monitor = std::make_unique<Channel>(context_->native(), ZMQ_PAIR);
  peer->monitor->peer = peer;
  peer->monitor->is_monitor = true;
  peer->monitor->socket.Set(ZMQ_LINGER, 0);
  peer->monitor->socket.Connect(address);
  peer->tried_since = Now();
  peer->next_warning = peer->tried_since + options_.connect_patience;
}

void ZmqDriver::OnNoConnection(Peer* peer) {
  const Time now = Now();
  if (now < peer->next_warning) return;
  peer->next_warning = now + options_.connect_patience;
  const bool ipc = peer->name.starts_with("ipc://");
  if (DescriptorsAreUsedUp())
    throw Error(ErrorCode::kResourceExhausted,
                StrCat("no descriptor for a connection to ", peer->name, ": ", DescriptorLimitText()));
  Warn(peer, StrCat("no connection for ",
                    std::chrono::round<std::chrono::seconds>(now - peer->tried_since).count(), " s; ",
                    ipc ? "ipc sockets reach processes of the same user in the same network namespace only "
                          "(SLUICE_TRANSPORT=auto and no DMLC_LOCAL: tcp)"
                        : "it has ended, or its network cannot be reached from here (DMLC_INTERFACE there "
                          "chooses one, PS_VERBOSE=1 shows which); trying on"));
}

void ZmqDriver::Peer::StopWatching() {
  if (monitor) zmq_socket_monitor(dealer->socket.native(), nullptr, 0);
}

void ZmqDriver::ReadMonitor(Channel* channel) {
  Multipart parts;
  if (ReceiveMultipart(channel->socket.native(), false, options_.limits, memory_, &parts) !=
      Multipart::State::kWhole) {
    channel->drained = true;
    return;
  }
  // An event has two bytes for its number and four for a descriptor: see zmq_socket_monitor(3).
  uint16_t event = 0;
  int32_t descriptor = -1;
  if (const Bytes told = parts.envelope.bytes(); told.size() >= sizeof event + sizeof descriptor) {
    std::memcpy(&event, told.data(), sizeof event);
    std::memcpy(&descriptor, told.data() + sizeof event, sizeof descriptor);
  }
  Peer* peer = channel->peer;
  if (event == ZMQ_EVENT_CONNECTED) DoNotPaceWithinHost(descriptor);
  if (event == ZMQ_EVENT_CONNECT_RETRIED) OnNoConnection(peer);
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    Warn(peer, "it refuses this process, whose job id or secret is another one");
    machine_->OnRefused(Now(), peer->id, *this);
  } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    VLOG(1) << options_.name << " is connected to " << peer->name;
    peer->StopWatching();
    peer->monitor->peer = nullptr;
    channels_changed_ = true;
  }
}

void ZmqDriver::Disconnect(PeerId id) {
  Peer* peer = Find(id);
  if (peer == nullptr) return;
  VLOG(2) << options_.name << " disconnects from " << peer->name;
  peer->open = false;
  if (without_room_.contains(id)) room_wakeup_->Wake();
  if (shared_) shared_->Forget(id);
  if (!peer->dealer) return;
  peer->dealer->socket.Set(ZMQ_LINGER, 0);
  channels_changed_ = true;
}

void ZmqDriver::Linger(Duration duration) {
  const int linger = Milliseconds(duration);
  if (router_) {
    router_->socket.Readable();  // makes libzmq process closed connections and drop the messages for them
    router_->socket.Set(ZMQ_LINGER, linger);
  }
  for (const auto& [id, peer] : peers_) {
    if (peer->dealer) peer->dealer->socket.Set(ZMQ_LINGER, peer->open ? linger : 0);
  }
}

ZmqDriver::Peer* ZmqDriver::Find(PeerId id) const {
  const auto it = peers_.find(id);
  return it == peers_.end() ? nullptr : it->second.get();
}

ZmqDriver::Peer* ZmqDriver::Add(std::unique_ptr<Peer> peer) {
  peer->id = PeerId{++last_peer_};
  peer->queue = std::make_shared<QueuedByteCounter>(room_wakeup_);
  return peers_.emplace(peer->id, std::move(peer)).first->second.get();
}

bool ZmqDriver::IsKnown(const Multipart& parts) const {
  const auto known = by_routing_id_.find(parts.from);
  return known != by_routing_id_.end() && peer_table_.IsReachedBy(known->second, parts.connection);
}

ZmqDriver::Peer* ZmqDriver::SenderOf(const Channel& channel, const Multipart& parts) {
  if (channel.peer != nullptr) return channel.peer;
  const auto known = by_routing_id_.find(parts.from);
  Peer* peer = known == by_routing_id_.end() ? Admit(parts) : Find(known->second);
  peer_table_.OnMessage(peer->id, parts.connection, connection_monitor_->IsOpen(parts.connection));
  return peer;
}

// Adds a peer that the ROUTER has not known. Only here the number of such peers grows, so the peers that have
// been gone longest are forgotten here.
ZmqDriver::Peer* ZmqDriver::Admit(const Multipart& parts) {
  while (const auto gone = peer_table_.Forget()) {
    by_routing_id_.erase(Find(*gone)->routing_id);
    if (shared_) shared_->Forget(*gone);
    if (without_room_.contains(*gone)) room_wakeup_->Wake();
    peers_.erase(*gone);
    ++counters_.forgotten;
  }
  auto added = std::make_unique<Peer>();
  added->routing_id = parts.from;
  Peer* peer = Add(std::move(added));
  by_routing_id_[parts.from] = peer->id;
  peer->name = StrCat("peer ", peer->id.value, " at ", parts.first.peer_address());
  VLOG(2) << options_.name << " hears from " << peer->name;
  return peer;
}

uint64_t ZmqDriver::QueuedBytes(PeerId id) const {
  const Peer* peer = Find(id);
  return peer == nullptr ? 0 : peer->queue->bytes();
}

bool ZmqDriver::HasRoom(PeerId id) {
  const Peer* peer = Find(id);
  if (peer == nullptr || !peer->open || peer->queue->bytes() <= options_.room_bytes) return true;
  if (!peer->queue->Await(options_.room_bytes / 2)) return true;
  without_room_.insert(id);
  return false;
}

// Calls OnRoom for the peers whose queue is short enough, and for peers that are gone: what was queued for
// those has been released, or they are not even known any more.
void ZmqDriver::ReportRoom() {
  std::vector<PeerId> told;
  std::erase_if(without_room_, [&](PeerId id) {
    const Peer* peer = Find(id);
    const bool waits = peer != nullptr && peer->open && peer->queue->awaited();
    if (!waits) told.push_back(id);
    return !waits;
  });
  for (const PeerId id : told) machine_->OnRoom(Now(), id, *this);
}

}  // namespace sluice::transport
