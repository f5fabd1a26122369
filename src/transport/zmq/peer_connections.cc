#include "transport/zmq/peer_connections.h"

#include <utility>

namespace sluice::transport {

void PeerConnections::OnMessage(PeerId peer, int connection, bool open) {
  if (IsReachedBy(peer, connection)) return;
  const auto [it, is_new] = entries_.try_emplace(peer.value);
  Entry& entry = it->second;
  if (!open) {  // a message that a closed connection left says nothing about another connection of the peer
    if (entry.connection >= 0) return;
    if (!is_new) Return(&entry);
    return Leave(peer, &entry);
  }
  if (!is_new) Return(&entry);
  OnClosed(connection);
  by_connection_[connection] = peer;
  entry.connection = connection;
}

void PeerConnections::OnClosed(int connection) {
  const auto it = by_connection_.find(connection);
  if (it == by_connection_.end()) return;
  const PeerId peer = it->second;
  by_connection_.erase(it);
  Leave(peer, &entries_.at(peer.value));
}

bool PeerConnections::IsReachedBy(PeerId peer, int connection) const {
  const auto there = by_connection_.find(connection);
  return there != by_connection_.end() && there->second == peer;
}

std::vector<PeerId> PeerConnections::TakeGone() {
  std::erase_if(newly_gone_, [this](PeerId peer) {
    const auto it = entries_.find(peer.value);
    if (it == entries_.end()) return true;
    it->second.listed = false;
    return it->second.connection >= 0;
  });
  return std::exchange(newly_gone_, {});
}

void PeerConnections::Leave(PeerId peer, Entry* entry) {
  entry->connection = -1;
  entry->in_gone = gone_.insert(gone_.end(), peer);
  if (!std::exchange(entry->listed, true)) newly_gone_.push_back(peer);
}

// Removes the peer from its connection, or from gone_, before the caller gives it a new place.
void PeerConnections::Return(Entry* entry) {
  if (entry->connection >= 0) {
    by_connection_.erase(entry->connection);
  } else {
    gone_.erase(entry->in_gone);
  }
}

std::optional<PeerId> PeerConnections::Forget() {
  if (gone_.size() <= max_gone_) return std::nullopt;
  const PeerId peer = gone_.front();
  gone_.pop_front();
  entries_.erase(peer.value);
  return peer;
}

}  // namespace sluice::transport
