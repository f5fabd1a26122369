// A network that goes nowhere: it keeps what a machine sends, for a test to look at.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace sluice::testing {

struct Sent {
  transport::PeerId to;
  wire::Message message;

  template <typename Body>
  bool Is() const {
    return std::holds_alternative<Body>(message.body);
  }
  template <typename Body>
  const Body& As() const {
    return std::get<Body>(message.body);
  }
};

class RecordingNetwork final : public transport::Network {
 public:
  transport::PeerId Connect(const std::string& address) override {
    addresses.push_back(address);
    return {addresses.size()};
  }
  void Disconnect(transport::PeerId peer) override { disconnected.push_back(peer); }
  void Send(transport::PeerId peer, wire::Message message) override {
    if (on_send) on_send();
    sent.push_back({peer, std::move(message)});
  }
  uint64_t QueuedBytes(transport::PeerId) const override { return 0; }
  bool HasRoom(transport::PeerId peer) override { return !without_room.contains(peer); }

  // What was sent since the last call.
  std::vector<Sent> Take() { return std::exchange(sent, {}); }
  // The same, as far as it is a Body to `to`.
  template <typename Body>
  std::vector<Body> Take(transport::PeerId to) {
    std::vector<Body> bodies;
    for (const Sent& one : Take()) {
      if (one.to == to && one.Is<Body>()) bodies.push_back(one.As<Body>());
    }
    return bodies;
  }

  std::vector<std::string> addresses;  // peer i + 1
  std::vector<transport::PeerId> disconnected;
  std::vector<Sent> sent;
  std::set<transport::PeerId> without_room;
  std::function<void()> on_send;
};

}  // namespace sluice::testing
