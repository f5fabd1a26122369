// The side of a loop to which peers connect: the bound ROUTER and the peers behind it. Internal to zmq/.
//
// A peer of the ROUTER is known by its routing id. It keeps its PeerId when it reconnects, until it has been
// gone longer than LoopOptions::max_gone_peers others. One thread at a time: under the loop's lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/zmq/connection_monitor.h"
#include "transport/zmq/loop_resources.h"
#include "transport/zmq/peer_connections.h"
#include "transport/zmq/peers.h"

namespace sluice::transport {

class Acceptor {
 public:
  using OnForgotten = std::function<void(PeerId peer)>;

  // Binds LoopOptions::bind; does nothing, and has no router, when that is empty. Throws Error, which names
  // an address that cannot be bound. `on_forgotten` is called before a peer is removed from `peers`.
  Acceptor(LoopResources& loop, Peers& peers, OnForgotten on_forgotten);

  bool bound() const { return router_ != nullptr; }
  PolledSocket* router() const { return router_.get(); }  // null: not bound
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Returns the sender of `parts`, which was read from the router; it may be a new peer. To be called after
  // OnRead.
  Peer* SenderOf(const Multipart& parts);
  // `parts` was read from the router.
  void OnRead(const Multipart& parts, Time now);
  // The router had nothing more to read.
  void OnAllRead() { connection_monitor_->OnAllRead(); }

  // When CheckConnections is due; Time::max() when the loop is not bound.
  Time next_check() const;
  // Cuts the connections that send too much, and tells the machine which peers' connections have closed.
  void CheckConnections();

  // Sets how long the router, when it closes, keeps messages that have not left.
  void SetLinger(Duration duration);
  void Close();

 private:
  void Bind(const std::string& address);
  bool IsKnown(const Multipart& parts) const;  // the sender has sent by the same connection before
  Peer* Admit(const Multipart& parts);
  void ForgetLongestGone();

  LoopResources& loop_;
  Peers& peers_;
  const OnForgotten on_forgotten_;
  std::unique_ptr<PolledSocket> router_;
  std::unique_ptr<ConnectionMonitor> connection_monitor_;  // watches the router
  PeerConnections peer_connections_;
  std::unordered_map<RoutingId, PeerId> by_routing_id_;
  std::vector<std::string> addresses_;
};

}  // namespace sluice::transport
