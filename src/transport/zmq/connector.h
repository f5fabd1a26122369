// The side of a loop that connects to others: one DEALER for each Connect, and a monitor of it until its
// first handshake. Internal to zmq/. One thread at a time: under the loop's lock.
#pragma once

#include "transport/zmq/loop_resources.h"
#include "transport/zmq/peers.h"
#include "transport/zmq/poll_set.h"

namespace sluice::transport {

class Connector {
 public:
  Connector(LoopResources& loop, Peers& peers, PollSet& poll_set)
      : loop_(loop), peers_(peers), poll_set_(poll_set) {}

  PeerId Connect(const std::string& address);
  // Marks the peer as closed; its dealer is closed when `poll_set` is rebuilt. Returns false when it is not
  // known. The peer may also be one that has connected to this loop.
  bool Disconnect(PeerId id);
  // Reads one event of a dealer's monitor; calls StateMachine::OnRefused when the peer refuses this process.
  void ReadMonitor(PolledSocket* polled);
  // Sets how long the dealers, when they close, keep messages that have not left.
  void SetLinger(Duration duration);

 private:
  void ReserveDescriptorsForConnections();
  void Watch(Peer* peer);
  void OnNoConnection(Peer* peer);

  LoopResources& loop_;
  Peers& peers_;
  PollSet& poll_set_;
  uint64_t connected_ = 0;  // calls of Connect
};

}  // namespace sluice::transport
