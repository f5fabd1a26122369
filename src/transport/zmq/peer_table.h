// Who came to a bound socket, by which connection, and who of them is still remembered. Internal to zmq/.
//
// A peer whose connection has closed may come back: it is remembered among the last `max_gone` that left. So
// there are never more guests than connections at once, and those. Bookkeeping only: ConnectionMonitor tells
// what closes.
#pragma once

#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/transport.h"

namespace sluice::transport {

class PeerTable {
 public:
  explicit PeerTable(size_t max_gone) : max_gone_(max_gone) {}

  // A peer, perhaps a new one, has sent a message by this connection, which may have closed since.
  void OnHeard(PeerId peer, int connection, bool open);
  void OnClosed(int connection);
  bool IsReachedBy(PeerId peer, int connection) const;  // as far as is known
  // Who has gone since this was asked last, and is gone still.
  std::vector<PeerId> TakeGone();
  bool HaveGone() const { return !newly_gone_.empty(); }  // some have gone, who may be back
  // While too many are gone: the one gone longest, who is no peer any more.
  std::optional<PeerId> Forget();
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    int connection = -1;                  // -1: gone
    std::list<PeerId>::iterator in_gone;  // while gone
  };
  void Leave(PeerId peer, Entry* entry);
  void Return(Entry* entry);

  const size_t max_gone_;
  std::unordered_map<uint64_t, Entry> entries_;  // by PeerId
  // One peer each: who is heard by another's connection has got its number, and the other one is gone.
  std::unordered_map<int, PeerId> by_connection_;
  std::list<PeerId> gone_;          // the longest gone first
  std::vector<PeerId> newly_gone_;  // since TakeGone
};

}  // namespace sluice::transport
