// The loop's part in sharing memory: it exchanges offers with the loops of its peers and reads what they send
// beside the sockets. Internal to zmq/. One thread at a time: under the loop's lock.
#pragma once

#include <string>

#include "transport/payload_sharing.h"
#include "transport/zmq/loop_resources.h"
#include "transport/zmq/peers.h"
#include "transport/zmq/poll_set.h"
#include "transport/zmq/sender.h"

namespace sluice::transport {

class MemoryExchange {
 public:
  // `sharing` may be null; peers then hear that this loop shares no memory.
  MemoryExchange(LoopResources& loop, const Peers& peers, Sender& sender, PollSet& poll_set,
                 PayloadSharing* sharing)
      : loop_(loop), peers_(peers), sender_(sender), poll_set_(poll_set), sharing_(sharing) {}

  // This loop has connected to `peer`, and asks for its offer.
  void OnConnect(PeerId peer);
  // Handles messages between loops, which the machine does not see. Returns true when `message` was one.
  bool OnMessage(Peer* peer, const wire::Message& message);
  // Puts what the peer has leased into the message's payload. Fails as PayloadSharing::OpenLeases does.
  Status OpenLeases(const Peer& peer, wire::Message* message);
  // Reads the descriptors of the sharing unless they are drained. With `wakes_peers` it wakes the peers whose
  // leases have been returned.
  void Read(bool wakes_peers);

 private:
  void AnswerGetMemory(const Peer& peer);
  void Accept(Peer* peer, const wire::Message& message, const wire::MemoryOffer& offer);
  void ReportNotShared(const Peer& peer, const std::string& reason);
  void ReadDescriptors();

  LoopResources& loop_;
  const Peers& peers_;
  Sender& sender_;
  PollSet& poll_set_;
  PayloadSharing* const sharing_;
};

}  // namespace sluice::transport
