// Which sockets the loop has: the bound one, and one for every process it connects to.
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

// Messages of one peer that ZeroMQ keeps until they are read.
constexpr int kMaxUnread = 1000;
constexpr uint64_t kFraming = uint64_t{1} << 20;

int Milliseconds(Duration d) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

// libzmq keeps ids that begin with a zero byte for itself.
RoutingId RandomRoutingId() {
  RoutingId id = 0;
  while ((id & 0xff) == 0) {
    SLUICE_CHECK(getrandom(&id, sizeof id, 0) == sizeof id) << "no randomness";
  }
  return id;
}

IngressLimits IngressLimitsOf(const ZmqLoopOptions& options) {
  IngressLimits limits;
  // A whole message, its frames' headers and what lies between ZeroMQ's threads.
  limits.max_partial = options.limits.max_message_bytes + kFraming;
  limits.max_unread = options.max_queued_bytes;
  limits.max_unauthenticated = options.max_unauthenticated_bytes;
  limits.heartbeat_interval = options.heartbeat_interval;
  return limits;
}

}  // namespace

void ZmqDriver::Configure(ZmqSocket* socket) const {
  socket->Set(ZMQ_SNDHWM, 0);  // water marks would drop by count, silently; we bound bytes
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
  // Until the end: libzmq would go on holding what is for a connection that has closed.
  socket.Set(ZMQ_LINGER, 0);
  socket.Set(ZMQ_PLAIN_SERVER, 1);
  socket.Set(ZMQ_ZAP_DOMAIN, std::string_view("sluice"));
  socket.Set(ZMQ_ROUTER_MANDATORY, 1);  // tell when a peer is gone
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);   // a peer that comes back before its old connection was found dead
  socket.Set(ZMQ_RCVHWM, kMaxUnread);   // then ZeroMQ reads no more from that peer; nothing is dropped
  constexpr Duration kLonger = 5s;
  connection_monitor_ = std::make_unique<ConnectionMonitor>(
      context_->native(), &socket, IngressLimitsOf(options_), options_.handshake_timeout + kLonger,
      [this](int connection) { peer_table_.OnClosed(connection); });
  for (const std::string& address : options_.bind) {
    ValidateAddress(address).OrThrow();
    if (address.starts_with("ipc://")) socket.Set(ZMQ_IPC_FILTER_UID, static_cast<int>(geteuid()));
    // Otherwise an IPv4 address would be told as [::ffff:127.0.0.1].
    socket.Set(ZMQ_IPV6, address.find('[') != std::string::npos ? 1 : 0);
    socket.Bind(address, options_.bind_advice);
    addresses_.push_back(socket.LastEndpoint());
    VLOG(1) << options_.name << " at " << addresses_.back()
            << (options_.bind_reason.empty() ? "" : ": " + options_.bind_reason);
  }
}

// ZeroMQ's threads open the most of them later, and then wait and try again without a word. Looked at when
// the number of connections has doubled, for as many again as can be had.
void ZmqDriver::ReserveDescriptorsForConnections() {
  constexpr uint64_t kOfEach =
      6;  // mailbox, two of the monitor while it connects, TCP, shared memory, its board
  const uint64_t connections = ++connected_;
  if (!std::has_single_bit(connections)) return;
  ReserveDescriptors(kOfEach, "one more connection", kOfEach * (connections + 1));
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
  if (shared_) Send(id, Own(wire::GetMemory{}));
  return id;
}

// A peer that refuses our secret would otherwise look like one that is not there, and one that is not there
// like one that is slow.
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
  peer->next_complaint = peer->tried_since + options_.connect_patience;
}

void ZmqDriver::OnNoConnection(Peer* peer) {
  const Time now = Now();
  if (now < peer->next_complaint) return;
  peer->next_complaint = now + options_.connect_patience;
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
  uint16_t event = 0;  // the first two bytes, then four of a descriptor: see zmq_socket_monitor
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
    router_->socket.Readable();  // hears of connections that have closed, and forgets what was for them
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
  peer_table_.OnHeard(peer->id, parts.connection, connection_monitor_->IsOpen(parts.connection));
  return peer;
}

// Here alone the number of guests grows, so here those who are gone too long are forgotten.
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

// Who is gone has let go of what was queued, or is not even known any more.
void ZmqDriver::TellOfRoom() {
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
