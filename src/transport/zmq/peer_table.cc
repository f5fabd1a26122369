#include "transport/zmq/peer_table.h"

#include <utility>

namespace sluice::transport {

void PeerTable::OnMessage(PeerId peer, int connection, bool open) {
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

void PeerTable::OnClosed(int connection) {
  const auto it = by_connection_.find(connection);
  if (it == by_connection_.end()) return;
  const PeerId peer = it->second;
  by_connection_.erase(it);
  Leave(peer, &entries_.at(peer.value));
}

bool PeerTable::IsReachedBy(PeerId peer, int connection) const {
  const auto there = by_connection_.find(connection);
  return there != by_connection_.end() && there->second == peer;
}

std::vector<PeerId> PeerTable::TakeGone() {
  std::erase_if(newly_gone_, [this](PeerId peer) {
    const auto it = entries_.find(peer.value);
    if (it == entries_.end()) return true;
    it->second.listed = false;
    return it->second.connection >= 0;
  });
  return std::exchange(newly_gone_, {});
}

void PeerTable::Leave(PeerId peer, Entry* entry) {
  entry->connection = -1;
  entry->in_gone = gone_.insert(gone_.end(), peer);
  if (!std::exchange(entry->listed, true)) newly_gone_.push_back(peer);
}

// Removes the peer from its connection, or from gone_, before the caller gives it a new place.
void PeerTable::Return(Entry* entry) {
  if (entry->connection >= 0) {
    by_connection_.erase(entry->connection);
  } else {
    gone_.erase(entry->in_gone);
  }
}

std::optional<PeerId> PeerTable::Forget() {
  if (gone_.size() <= max_gone_) return std::nullopt;
  const PeerId peer = gone_.front();
  gone_.pop_front();
  entries_.erase(peer.value);
  return peer;
}

}  // namespace sluice::transport
