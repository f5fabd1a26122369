#include "transport/zmq/guests.h"

#include <utility>

namespace sluice::transport {

void Guests::OnHeard(PeerId guest, int connection, bool open) {
  if (IsAt(guest, connection)) return;
  const auto [it, is_new] = places_.try_emplace(guest.value);
  Place& place = it->second;
  if (!open) {  // what is left of a closed connection says nothing about another one
    if (place.connection >= 0) return;
    if (!is_new) Return(&place);
    return Leave(guest, &place);
  }
  if (!is_new) Return(&place);
  OnClosed(connection);
  by_connection_[connection] = guest;
  place.connection = connection;
}

void Guests::OnClosed(int connection) {
  const auto it = by_connection_.find(connection);
  if (it == by_connection_.end()) return;
  const PeerId guest = it->second;
  by_connection_.erase(it);
  Leave(guest, &places_.at(guest.value));
}

bool Guests::IsAt(PeerId guest, int connection) const {
  const auto there = by_connection_.find(connection);
  return there != by_connection_.end() && there->second == guest;
}

std::vector<PeerId> Guests::TakeLeft() {
  std::erase_if(left_, [this](PeerId guest) {
    const auto it = places_.find(guest.value);
    return it == places_.end() || it->second.connection >= 0;
  });
  return std::exchange(left_, {});
}

void Guests::Leave(PeerId guest, Place* place) {
  place->connection = -1;
  place->in_gone = gone_.insert(gone_.end(), guest);
  left_.push_back(guest);
}

// To be placed anew, wherever it was.
void Guests::Return(Place* place) {
  if (place->connection >= 0) {
    by_connection_.erase(place->connection);
  } else {
    gone_.erase(place->in_gone);
  }
}

std::optional<PeerId> Guests::Forget() {
  if (gone_.size() <= max_gone_) return std::nullopt;
  const PeerId guest = gone_.front();
  gone_.pop_front();
  places_.erase(guest.value);
  return guest;
}

}  // namespace sluice::transport
