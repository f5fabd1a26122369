// Requests of workers that every server must acknowledge before the worker gets its answer. They are sent to
// the servers again until acknowledged. One thread: the scheduler's loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "scheduler/message_sender.h"

namespace sluice::scheduler {

struct Relay {
  wire::Body body;                 // AnnounceKeys or SetOptimizer
  std::map<uint32_t, bool> acked;  // by server rank
  uint64_t requester = 0;          // the worker's incarnation: a worker that connects again has another peer
  uint64_t request_id = 0;
  wire::Body answer;
  Time next_repeat{};
};

class Relays {
 public:
  Relays(const Roster& roster, const MessageSender& sender, Duration repeat_interval)
      : roster_(roster), sender_(sender), repeat_interval_(repeat_interval) {}

  // When the request `request_id` of `worker` is being relayed already: answers it with the names of the
  // servers that have not acknowledged, and returns true.
  bool AnswerRepeated(const Member& worker, uint64_t request_id, transport::Network& network) const;
  // Sends `body` to all servers. Once they have acknowledged, the worker gets `answer`.
  void Start(Time now, const Member& worker, uint64_t request_id, wire::Body body, wire::Body answer,
             transport::Network& network);
  // `server` has acknowledged the relay `id`. When it was the last one, the worker is answered and the relay,
  // which has ended, is returned.
  std::optional<Relay> OnAck(const Member& server, uint64_t id, transport::Network& network);
  // As OnAck, but the worker's answer becomes this error.
  std::optional<Relay> OnError(const Member& server, uint64_t id, const wire::ErrorReply& error,
                               transport::Network& network);

  void RepeatDue(Time now, transport::Network& network);
  Time NextRepeat() const;  // Time::max(): there is no relay
  std::string Describe() const;

 private:
  void SendToServers(Time now, uint64_t id, Relay& relay, transport::Network& network);

  const Roster& roster_;
  const MessageSender& sender_;
  const Duration repeat_interval_;
  std::map<uint64_t, Relay> relays_;  // by id
  uint64_t next_id_ = 1;
};

}  // namespace sluice::scheduler
