// Sends the scheduler's messages, with the fields of the envelope filled in. One thread: the scheduler's
// loop.
#pragma once

#include <utility>

#include "scheduler/roster.h"

namespace sluice::scheduler {

class MessageSender {
 public:
  // `roster` gives each message its epoch.
  MessageSender(uint64_t job, uint64_t incarnation, const Roster& roster)
      : job_(job), incarnation_(incarnation), roster_(roster) {}

  void Send(transport::PeerId to, wire::Body body, transport::Network& network, uint64_t in_reply_to = 0,
            uint64_t id = 0) const {
    wire::Message message;
    message.job = job_;
    message.sender = {wire::Role::kScheduler, 0, incarnation_};
    message.id = id;
    message.in_reply_to = in_reply_to;
    message.epoch = roster_.epoch();
    message.body = std::move(body);
    network.Send(to, std::move(message));
  }
  // Answers the request `in_reply_to` with an error.
  void SendError(transport::PeerId to, const Failure& failure, transport::Network& network,
                 uint64_t in_reply_to = 0) const {
    Send(to, wire::ErrorReply{failure.code, failure.message}, network, in_reply_to);
  }

 private:
  const uint64_t job_, incarnation_;
  const Roster& roster_;
};

}  // namespace sluice::scheduler
