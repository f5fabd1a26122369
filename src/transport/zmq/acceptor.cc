// Binds the ROUTER, admits the peers that it hears from, and forgets those that have been gone longest. The
// number of accepted peers grows in Admit only, so it is bounded there.
// Invariant: by_routing_id_ has exactly the peers that peer_connections_ knows, and each is in peers_.
// ZmqDriver and Receiver call everything under the loop's lock; only the constructor runs before the loop's
// thread starts.
#include "transport/zmq/acceptor.h"

#include <unistd.h>
#include <zmq.h>

#include "base/strings.h"
#include "transport/address.h"

namespace sluice::transport {
namespace {

// Unread messages of one peer that ZeroMQ queues.
constexpr int kMaxUnread = 1000;
constexpr uint64_t kFraming = uint64_t{1} << 20;
constexpr Duration kPatienceMargin = 5s;

IngressLimits IngressLimitsOf(const LoopOptions& options) {
  IngressLimits limits;
  // One whole message, its frame headers, and what is in transit between ZeroMQ's threads.
  limits.max_partial = options.limits.max_message_bytes + kFraming;
  limits.max_unread = options.max_queued_bytes;
  limits.max_unauthenticated = options.max_unauthenticated_bytes;
  limits.heartbeat_interval = options.heartbeat_interval;
  return limits;
}

}  // namespace

Acceptor::Acceptor(LoopResources& loop, Peers& peers, OnForgotten on_forgotten)
    : loop_(loop),
      peers_(peers),
      on_forgotten_(std::move(on_forgotten)),
      peer_connections_(loop.options.max_gone_peers) {
  if (loop.options.bind.empty()) return;
  router_ = std::make_unique<PolledSocket>(loop.context->native(), ZMQ_ROUTER);
  ZmqSocket& socket = router_->socket;
  loop.Configure(&socket);
  // 0 until SetLinger at the end: libzmq would keep the messages for connections that have closed.
  socket.Set(ZMQ_LINGER, 0);
  socket.Set(ZMQ_PLAIN_SERVER, 1);
  socket.Set(ZMQ_ZAP_DOMAIN, std::string_view("sluice"));
  socket.Set(ZMQ_ROUTER_MANDATORY, 1);  // a send to a peer that is gone fails
  socket.Set(ZMQ_ROUTER_HANDOVER, 1);   // a peer may reconnect before its old connection is found dead
  socket.Set(ZMQ_RCVHWM, kMaxUnread);   // then ZeroMQ stops reading from that peer; nothing is dropped
  connection_monitor_ =
      std::make_unique<ConnectionMonitor>(loop.context->native(), &socket, IngressLimitsOf(loop.options),
                                          loop.options.handshake_timeout + kPatienceMargin,
                                          [this](int connection) { peer_connections_.OnClosed(connection); });
  for (const std::string& address : loop.options.bind) Bind(address);
}

void Acceptor::Bind(const std::string& address) {
  ValidateAddress(address).OrThrow();
  ZmqSocket& socket = router_->socket;
  if (address.starts_with("ipc://")) socket.Set(ZMQ_IPC_FILTER_UID, static_cast<int>(geteuid()));
  // With ZMQ_IPV6 an IPv4 address would be reported as [::ffff:127.0.0.1].
  socket.Set(ZMQ_IPV6, address.find('[') != std::string::npos ? 1 : 0);
  socket.Bind(address, loop_.options.bind_advice);
  addresses_.push_back(socket.LastEndpoint());
  VLOG(1) << loop_.options.name << " at " << addresses_.back()
          << (loop_.options.bind_reason.empty() ? "" : ": " + loop_.options.bind_reason);
}

bool Acceptor::IsKnown(const Multipart& parts) const {
  const auto known = by_routing_id_.find(parts.from);
  return known != by_routing_id_.end() && peer_connections_.IsReachedBy(known->second, parts.connection);
}

void Acceptor::OnRead(const Multipart& parts, Time now) {
  connection_monitor_->OnMessage(parts.connection, parts.wire_bytes, IsKnown(parts), now);
}

Peer* Acceptor::SenderOf(const Multipart& parts) {
  const auto known = by_routing_id_.find(parts.from);
  Peer* peer = known == by_routing_id_.end() ? Admit(parts) : peers_.Find(known->second);
  peer_connections_.OnMessage(peer->id, parts.connection, connection_monitor_->IsOpen(parts.connection));
  return peer;
}

Peer* Acceptor::Admit(const Multipart& parts) {
  ForgetLongestGone();
  auto added = std::make_unique<Peer>();
  added->routing_id = parts.from;
  added->polled = router_.get();
  Peer* peer = peers_.Add(std::move(added));
  by_routing_id_[parts.from] = peer->id;
  peer->name = StrCat("peer ", peer->id.value, " at ", parts.first.peer_address());
  VLOG(2) << loop_.options.name << " hears from " << peer->name;
  return peer;
}

void Acceptor::ForgetLongestGone() {
  while (const auto gone = peer_connections_.Forget()) {
    by_routing_id_.erase(peers_.Find(*gone)->routing_id);
    on_forgotten_(*gone);
    peers_.Remove(*gone);
    ++loop_.counters.forgotten;
  }
}

Time Acceptor::next_check() const {
  return connection_monitor_ ? connection_monitor_->next_check() : Time::max();
}

void Acceptor::CheckConnections() {
  if (router_->drained) connection_monitor_->OnAllRead();
  for (const std::string& who : connection_monitor_->Check(LoopResources::Now())) {
    ++loop_.counters.cut;
    loop_.Warn(nullptr, who);
  }
  if (!peer_connections_.HasNewlyGone()) return;
  if (router_->socket.Readable()) router_->drained = false;
  if (!router_->drained) return;  // the last messages of these peers are delivered before OnClosed
  for (const PeerId peer : peer_connections_.TakeGone())
    loop_.machine->OnClosed(LoopResources::Now(), peer, loop_.network);
}

void Acceptor::SetLinger(Duration duration) {
  if (!router_) return;
  router_->socket.Readable();  // makes libzmq process closed connections and drop the messages for them
  router_->socket.Set(ZMQ_LINGER, Milliseconds(duration));
}

void Acceptor::Close() {
  connection_monitor_.reset();
  router_.reset();
}

}  // namespace sluice::transport
