#include "transport/zmq/peers.h"

#include <zmq.h>

namespace sluice::transport {

void Peer::StopWatching() {
  if (monitor) zmq_socket_monitor(dealer->socket.native(), nullptr, 0);
}

Peer* Peers::Add(std::unique_ptr<Peer> peer) {
  peer->id = PeerId{++last_};
  peer->queue = std::make_shared<QueuedByteCounter>(room_wakeup_);
  return peers_.emplace(peer->id, std::move(peer)).first->second.get();
}

Peer* Peers::Find(PeerId id) const {
  const auto it = peers_.find(id);
  return it == peers_.end() ? nullptr : it->second.get();
}

void Peers::RemoveDisconnected() {
  std::erase_if(peers_, [](const auto& entry) { return entry.second->dealer && !entry.second->open; });
}

}  // namespace sluice::transport
