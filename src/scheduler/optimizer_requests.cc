// SetOptimizer and AwaitOptimizer. Both may be repeated: a SetOptimizer that is being relayed is answered
// StillWaiting, one that was answered gets the same answer again. Invariant: a store is in set_ once every
// server has acknowledged its optimiser, and nobody waits for it then.
#include "scheduler/optimizer_requests.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "kvstore/update/update.h"

namespace sluice::scheduler {

using wire::Role;

// All servers accept the rule or none, so the scheduler checks it against every key.
Status OptimizerRequests::Validate(const Member& member, const wire::SetOptimizer& request) const {
  if (member.info.role != Role::kWorker || member.info.rank != 0)
    return Fail(ErrorCode::kPermissionDenied, "only worker 0 sets the optimiser");
  if (const std::string why = InvalidReason(request.config); !why.empty())
    return Fail(ErrorCode::kInvalidArgument, why);
  const kvstore::UpdateRule rule{.optimizer = Optimizer::Create(request.config), .updater = nullptr};
  for (const wire::KeyEntry& entry : keys_.entries()) {
    if (entry.spec.store != request.store) continue;
    if (Status status = kvstore::ValidateRule(rule, entry); !status) return status;
  }
  return Status::Ok();
}

void OptimizerRequests::OnSet(Time now, const Member& member, const wire::Message& message,
                              transport::Network& network) {
  const auto& request = std::get<wire::SetOptimizer>(message.body);
  if (const Status status = Validate(member, request); !status)
    return sender_.SendError(member.peer, status.failure(), network, message.id);
  const RequestKey answered(member.info.incarnation, message.id);
  if (const auto it = answered_.find(answered); it != answered_.end())
    return sender_.Send(member.peer, it->second, network, message.id);
  if (relays_.AnswerRepeated(member, message.id, network)) return;
  VLOG(1) << "optimiser " << Name(request.config.kind) << ", learning rate "
          << Optimizer::Create(request.config)->config().learning_rate;
  relays_.Start(now, member, message.id, request, wire::Ack{}, network);
}

void OptimizerRequests::OnAwait(const Member& member, const wire::Message& message,
                                transport::Network& network) {
  const uint32_t store = std::get<wire::AwaitOptimizer>(message.body).store;
  if (set_.contains(store)) return sender_.Send(member.peer, wire::Ack{}, network, message.id);
  if (WorkerZeroHasLeft()) return RejectAwait(member.peer, message.id, network);
  awaited_[{store, member.peer}] = message.id;
  sender_.Send(member.peer, wire::StillWaiting{"optimiser", "worker 0 to set the optimiser"}, network,
               message.id);
}

void OptimizerRequests::OnRelayed(const std::optional<Relay>& relay, transport::Network& network) {
  if (!relay) return;
  const auto* set = std::get_if<wire::SetOptimizer>(&relay->body);
  if (set == nullptr) return;
  if (std::holds_alternative<wire::Ack>(relay->answer)) {
    set_.insert(set->store);
    std::erase_if(awaited_, [&](const auto& waiting) {
      const auto& [of, peer] = waiting.first;
      if (of == set->store) sender_.Send(peer, wire::Ack{}, network, waiting.second);
      return of == set->store;
    });
  }
  const RequestKey key(relay->requester, relay->request_id);
  answered_[key] = relay->answer;
  answered_order_.push_back(key);
  while (answered_order_.size() > kAnswersKept) {
    answered_.erase(answered_order_.front());
    answered_order_.pop_front();
  }
}

void OptimizerRequests::OnWorkerLeft(transport::Network& network) {
  if (!WorkerZeroHasLeft()) return;
  for (const auto& [waiting, request] : std::exchange(awaited_, {}))
    RejectAwait(waiting.second, request, network);
}

bool OptimizerRequests::WorkerZeroHasLeft() const {
  return std::ranges::any_of(roster_.members(), [](const Member& member) {
    return member.info.role == Role::kWorker && member.info.rank == 0 &&
           member.info.state == wire::NodeState::kFinished;
  });
}

void OptimizerRequests::RejectAwait(transport::PeerId peer, uint64_t request,
                                    transport::Network& network) const {
  sender_.SendError(peer,
                    Fail(ErrorCode::kFailedPrecondition,
                         "worker 0 has left the job and has not set the optimiser: nobody else does"),
                    network, request);
}

}  // namespace sluice::scheduler
