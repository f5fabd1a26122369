// Sends messages to the peers of a loop, and bounds the bytes that are queued for each. Internal to zmq/. One
// thread at a time: under the loop's lock.
#pragma once

#include <set>

#include "transport/payload_sharing.h"
#include "transport/zmq/loop_resources.h"
#include "transport/zmq/peers.h"

namespace sluice::transport {

class Sender {
 public:
  // `sharing`, which may be null, takes payloads out of messages before they are sent.
  Sender(LoopResources& loop, const Peers& peers, PayloadSharing* sharing)
      : loop_(loop), peers_(peers), sharing_(sharing) {}

  // Network's functions of these names.
  void Send(PeerId id, wire::Message&& message);
  uint64_t QueuedBytes(PeerId id) const;
  bool HasRoom(PeerId id);

  // Sends a message to the peer's loop rather than its machine.
  void SendToLoop(PeerId id, wire::Body body);
  // Sends an ErrorReply to the message that `header` begins, in its own protocol version and job.
  void SendRefusal(const Peer& peer, const wire::Header& header, const wire::ErrorReply& refusal);
  // Calls OnRoom for the peers whose queue is short enough, and for peers that are gone.
  void ReportRoom();
  // No more messages are sent to `peer`, so a machine that waits for its room is told.
  void OnGone(PeerId peer);

 private:
  LoopResources& loop_;
  const Peers& peers_;
  PayloadSharing* const sharing_;
  std::set<PeerId> without_room_;  // peers for which the machine waits for OnRoom
};

}  // namespace sluice::transport
