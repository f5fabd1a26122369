// A network that delivers nothing: it records the messages that a machine sends, for a test to inspect.
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

  // Returns the messages sent since the last call.
  std::vector<Sent> Take() { return std::exchange(sent, {}); }
  // As Take(), but returns only the bodies of type Body that were sent to `to`; drops the rest.
  template <typename Body>
  std::vector<Body> Take(transport::PeerId to) {
    std::vector<Body> bodies;
    for (const Sent& one : Take()) {
      if (one.to == to && one.Is<Body>()) bodies.push_back(one.As<Body>());
    }
    return bodies;
  }

  std::vector<std::string> addresses;  // addresses[i] is that of peer i + 1
  std::vector<transport::PeerId> disconnected;
  std::vector<Sent> sent;
  std::set<transport::PeerId> without_room;
  std::function<void()> on_send;
};

}  // namespace sluice::testing
