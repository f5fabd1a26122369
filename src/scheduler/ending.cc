// Why a job ends: members that leave, deaths, failures. JobEnd carries it out. All methods run on the thread
// of the scheduler's loop.
#include <utility>

#include "base/strings.h"
#include "scheduler/scheduler.h"

namespace sluice::scheduler {

using wire::NodeState;
using wire::Role;

void Scheduler::OnLeave(Time now, Member& member, const wire::Message& message, transport::Network& network) {
  const auto& leave = std::get<wire::Leave>(message.body);
  sender_.Send(member.peer, wire::Ack{}, network, message.id);
  if (member.info.state == NodeState::kFinished) return;
  roster_.SetState(member, NodeState::kFinished);
  VLOG(1) << Roster::NameOf(member.info) << " left" << (leave.message.empty() ? "" : ": " + leave.message);
  if (end_.has_begun()) return;
  if (leave.outcome == wire::Leave::Outcome::kFailed || member.info.role == Role::kServer) {
    return StopJob(
        now, {wire::Stop::Reason::kFailed, StrCat(Roster::NameOf(member.info), " failed: ", leave.message)},
        network, &member);
  }
  BroadcastMembership(network);
  if (roster_.AllAre(Role::kWorker, NodeState::kFinished))
    return StopJob(now, {wire::Stop::Reason::kFinished, "all workers have finished"}, network);
  optimizer_requests_.OnWorkerLeft(network);
  for (const auto& [waiter, failure] : barriers_.TakeUnsatisfiable(roster_))
    sender_.SendError(waiter.peer, failure, network, waiter.request_id);
}

// Every death ends the job for now. Surviving a death would begin here: the epoch has
// been increased already, and Roster::Replace can give the place to a new process.
void Scheduler::OnDeath(Time now, const std::vector<const Member*>& dead, const std::string& how,
                        transport::Network& network) {
  std::vector<std::string> names;
  for (const Member* member : dead) names.push_back(Roster::NameOf(member->info));
  counters_["deaths"] += dead.size();
  StopJob(now,
          {wire::Stop::Reason::kFailed,
           StrCat(StrJoin(names), names.size() == 1 ? " is dead: " : " are dead: ", how)},
          network);
}

void Scheduler::FailJob(Time now, const std::string& message, transport::Network& network) {
  StopJob(now, {wire::Stop::Reason::kFailed, message}, network);
  end_.IgnoreLatecomers(now);
}

// Called when the loop ends. If it ends because it failed, the connected members receive the reason.
void Scheduler::OnEnd(Time now, const std::string& why, transport::Network& network) {
  if (!Done()) FailJob(now, StrCat("the scheduler failed: ", why), network);
}

void Scheduler::StopJob(Time now, wire::Stop stop, transport::Network& network, const Member* reported_by) {
  const bool waited = now - started_ >= options_.rendezvous_timeout;
  const Time latecomers_until = complete_ || waited ? now : now + options_.heartbeat_timeout;
  end_.Begin(now, std::move(stop), latecomers_until, network, reported_by);
}

void Scheduler::OnClosed(Time now, transport::PeerId peer, transport::Network& network) {
  for (Member& member : roster_.members()) {
    if (member.peer == peer) member.closed = true;
  }
  if (end_.has_begun()) OnTimer(now, network);
}

}  // namespace sluice::scheduler
