// Sends a shard's messages to workers, each with the header that names the job, the server and the epoch.
//
// Thread safety: one thread, that of the shard's loop.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "transport/transport.h"

namespace sluice::server {

class ReplySender {
 public:
  // `incarnation`: that of the server's process.
  ReplySender(uint64_t job, uint64_t incarnation) : job_(job), sender_{wire::Role::kServer, 0, incarnation} {}

  // The server's rank and the epoch of the newest roster, for all messages from here on.
  void SetServer(uint32_t rank, uint64_t epoch) {
    sender_.rank = rank;
    epoch_ = epoch;
  }
  uint64_t epoch() const { return epoch_; }

  // Answers the request `request_id` of `peer`.
  void Send(transport::PeerId peer, uint64_t request_id, wire::Body body, wire::Frames frames,
            transport::Network& network) const {
    wire::Message message;
    message.job = job_;
    message.sender = sender_;
    message.in_reply_to = request_id;
    message.epoch = epoch_;
    message.body = std::move(body);
    message.payload = std::move(frames);
    network.Send(peer, std::move(message));
  }
  void SendError(transport::PeerId peer, uint64_t request_id, const Failure& failure,
                 transport::Network& network) const {
    Send(peer, request_id, wire::ErrorReply{failure.code, failure.message}, {}, network);
  }

 private:
  const uint64_t job_;
  wire::Sender sender_;
  uint64_t epoch_ = 0;
};

}  // namespace sluice::server
