// The Network that a machine of a simulation sees. Internal to sim/.
#pragma once

#include "transport/sim/sim_network.h"

namespace sluice::transport {

class SimLoop::Port final : public Network {
 public:
  explicit Port(SimLoop& loop) : loop_(loop) {}
  PeerId Connect(const std::string& address) override;
  void Disconnect(PeerId peer) override {
    if (const Peer* p = Find(peer)) loop_.sim_.connections_[p->connection].open = false;
  }
  void Send(PeerId peer, wire::Message message) override;
  uint64_t QueuedBytes(PeerId peer) const override {
    const Peer* p = Find(peer);
    return p == nullptr ? 0 : loop_.sim_.connections_[p->connection].in_flight[p->side];
  }
  bool HasRoom(PeerId peer) override;

 private:
  const Peer* Find(PeerId peer) const {
    return peer.value == 0 || peer.value > loop_.peers_.size() ? nullptr : &loop_.peers_[peer.value - 1];
  }
  SimLoop& loop_;
};

}  // namespace sluice::transport
