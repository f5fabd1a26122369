// The peers of a bound socket: the connection of each, and those that have left. Internal to zmq/.
//
// A peer whose connection has closed may reconnect, so the last `max_gone` peers that left are remembered.
// There are never more than were connected at once, plus `max_gone`. The class only does the bookkeeping:
// ConnectionMonitor reports which connections close.
#pragma once

#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/transport.h"

namespace sluice::transport {

class PeerConnections {
 public:
  explicit PeerConnections(size_t max_gone) : max_gone_(max_gone) {}

  // `peer`, perhaps a new one, has sent a message by `connection`, which is still open or (!open) has closed.
  void OnMessage(PeerId peer, int connection, bool open);
  void OnClosed(int connection);
  bool IsReachedBy(PeerId peer, int connection) const;  // as far as is known
  // Returns the peers that have left since the last call and have not come back.
  std::vector<PeerId> TakeGone();
  bool HasNewlyGone() const { return !newly_gone_.empty(); }  // peers have left; some may be back already
  // While more than `max_gone` peers are gone: removes the one that has been gone longest and returns it.
  std::optional<PeerId> Forget();
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    int connection = -1;                  // -1: gone
    std::list<PeerId>::iterator in_gone;  // its place in gone_; valid while gone
    bool listed = false;                  // in newly_gone_
  };
  void Leave(PeerId peer, Entry* entry);
  void Return(Entry* entry);

  const size_t max_gone_;
  std::unordered_map<uint64_t, Entry> entries_;  // by PeerId
  // One peer per connection: when a peer sends by another one's connection, the descriptor's number has been
  // reused, and that other peer is gone.
  std::unordered_map<int, PeerId> by_connection_;
  std::list<PeerId> gone_;          // longest gone first
  std::vector<PeerId> newly_gone_;  // since TakeGone
};

}  // namespace sluice::transport
