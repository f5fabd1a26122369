// Client: what comes from outside goes to the class that it concerns.
//
// The client's loop calls everything here. A method that is called from outside runs the completions that
// it has queued before it returns (CompletionQueue::Run), after the client's state is consistent again: a
// completion may call the client.
#include "worker/client.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::worker {

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      tracer_(options_.tracer ? *options_.tracer : no_tracer_),
      membership_(options_.membership),
      messages_(membership_),
      waits_(options_.on_waiting),
      connections_({options_.max_inflight_bytes, options_.resend_timeout, records_, tracer_}, messages_),
      open_(records_, keys_, connections_, completions_, waits_),
      operations_(membership_, keys_, connections_, open_, tracer_),
      answers_(keys_, connections_, open_, tracer_, options_.cache_bytes),
      requests_(keys_, connections_, messages_, completions_, waits_),
      initializer_(keys_, connections_, open_, operations_, requests_, messages_),
      session_({membership_, messages_, connections_, open_, operations_, requests_, completions_},
               options_.on_job_failed) {}

void Client::OnStart(Time now, NetworkRef network) {
  membership_.OnStart(now, network);
}

void Client::OnEnd(Time now, const std::string& why, NetworkRef network) {
  session_.End(Fail(ErrorCode::kCancelled, "this worker is no longer in the job: ", why));
  completions_.Run(now, network);
}

void Client::OnMessage(Time now, transport::PeerId from, wire::Message message, NetworkRef network) {
  if (from == membership_.scheduler()) {
    if (membership_.OnMessage(now, from, message, network)) {
      session_.OnMembershipChange(network);
    } else {
      requests_.OnAnswer(message);
    }
    return completions_.Run(now, network);
  }
  const std::optional<uint32_t> shard = connections_.ShardOf(from);
  if (!shard || message.sender.role != wire::Role::kServer) return;
  OnShardMessage(now, *shard, message, network);
  connections_[*shard].Flush(now, network);
  session_.CheckFlushed(now);
  completions_.Run(now, network);
}

void Client::FailLastRound(Time now, uint32_t key, const Failure& failure, NetworkRef network) {
  DeclaredKey* const declared = keys_.Find(key);
  if (declared == nullptr) return;
  answers_.FailFromRound(*declared, declared->pushed, failure);
  open_.EraseFinished();
  connections_.Flush(now, network);
  completions_.Run(now, network);
}

void Client::OnShardMessage(Time now, uint32_t shard, const wire::Message& message, NetworkRef network) {
  if (std::holds_alternative<wire::Ack>(message.body)) {
    answers_.OnAck(now, shard, message.in_reply_to);
  } else if (std::holds_alternative<wire::Values>(message.body)) {
    answers_.OnValues(now, shard, message);
  } else if (std::holds_alternative<wire::Stats>(message.body) ||
             std::holds_alternative<wire::RowIds>(message.body)) {
    requests_.OnAnswer(message);
  } else if (const auto* error = std::get_if<wire::ErrorReply>(&message.body)) {
    if (!requests_.OnAnswer(message))
      answers_.OnError(now, shard, message.in_reply_to, Failure{error->code, error->message}, network);
  } else if (const auto* waiting = std::get_if<wire::StillWaiting>(&message.body)) {
    answers_.OnWaiting(shard, message.in_reply_to, *waiting);
  }
}

void Client::OnRefused(Time now, transport::PeerId peer, NetworkRef network) {
  membership_.OnRefused(peer);
  session_.OnMembershipChange(network);
  completions_.Run(now, network);
}

void Client::OnTimer(Time now, NetworkRef network) {
  session_.OnTimer(now, network);
  open_.Expire(now);
  requests_.Expire(now);
  if (waits_.BeginReport(now)) {
    open_.ReportTo(waits_, now);
    requests_.ReportTo(waits_, now);
    waits_.Print(now);
  }
  requests_.Repeat(now, network);
  connections_.Repeat(now, network);
  connections_.Flush(now, network);
  session_.CheckFlushed(now);
  completions_.Run(now, network);
}

Time Client::NextTimer() const {
  return std::min({session_.NextTimer(), connections_.NextTimer(), open_.NextTimer(), waits_.NextTimer(),
                   requests_.NextTimer()});
}

std::string Client::DumpState(Time now) const {
  std::string text = membership_.Describe(now);
  if (session_.failure()) text += StrCat("failed: ", session_.failure()->message, "\n");
  return text + open_.DumpState() + session_.DumpState() + requests_.DumpState() + connections_.DumpState();
}

}  // namespace sluice::worker
