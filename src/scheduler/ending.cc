// The end of a job: members that leave, deaths, failures, and the wait for the remaining members.
//
// The first StopJob decides the outcome. From then on every member receives a Stop, repeated
// until it has left, and the machine is done when no member is waited for, at stop_deadline_
// at the latest; a job that failed before it was complete also waits for nodes that have yet
// to join, until latecomers_until_. All methods run on the thread of the scheduler's loop.
#include <algorithm>
#include <utility>

#include "base/reported.h"
#include "base/strings.h"
#include "scheduler/scheduler.h"

namespace sluice::scheduler {

using wire::NodeState;
using wire::Role;

namespace {

constexpr Duration kLingerAfterFailure = 100ms;

}  // namespace

void Scheduler::OnLeave(Time now, Member& member, const wire::Message& message, transport::Network& network) {
  const auto& leave = std::get<wire::Leave>(message.body);
  Send(member.peer, wire::Ack{}, network, message.id);
  if (member.info.state == NodeState::kFinished) return;
  roster_.SetState(member, NodeState::kFinished);
  VLOG(1) << Roster::NameOf(member.info) << " left" << (leave.message.empty() ? "" : ": " + leave.message);
  if (stopping_) return;
  if (leave.outcome == wire::Leave::Outcome::kFailed || member.info.role == Role::kServer) {
    return StopJob(
        now, {wire::Stop::Reason::kFailed, StrCat(Roster::NameOf(member.info), " failed: ", leave.message)},
        network, &member);
  }
  BroadcastMembership(network);
  if (roster_.AllAre(Role::kWorker, NodeState::kFinished))
    return StopJob(now, {wire::Stop::Reason::kFinished, "all workers have finished"}, network);
  if (WorkerZeroHasLeft()) {
    for (const auto& [waiting, request] : std::exchange(await_optimizer_, {}))
      RefuseOptimizer(waiting.second, request, network);
  }
  for (const auto& [waiter, failure] : barriers_.TakeUnsatisfiable(roster_))
    Send(waiter.peer, wire::ErrorReply{failure.code, failure.message}, network, waiter.request_id);
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
  latecomers_until_ = now;
  EndUnlessAwaiting(now);
}

// Called when the loop ends. If it ends because it failed, the connected members receive the reason.
void Scheduler::OnEnd(Time now, const std::string& why, transport::Network& network) {
  if (!done_) FailJob(now, StrCat("the scheduler failed: ", why), network);
}

void Scheduler::StopJob(Time now, wire::Stop stop, transport::Network& network, const Member* reported_by) {
  if (stopping_) return;
  stopping_ = true;
  outcome_ = std::move(stop);
  const bool failed = outcome_.reason == wire::Stop::Reason::kFailed;
  stop_deadline_ = now + (failed ? options_.failure_timeout : options_.finish_timeout);
  const bool waited = now - started_ >= options_.rendezvous_timeout;
  latecomers_until_ = complete_ || waited ? now : now + options_.heartbeat_timeout;
  if (failed) {
    const std::string what = "the job stops: " + outcome_.message;
    LOG(ERROR) << WrapLogged(
        reported_by == nullptr
            ? what
            : ReportedBy(StrCat(wire::Name(reported_by->info.role), " ", reported_by->info.rank), what));
  }
  SendStop(now, network);
}

wire::Stop Scheduler::StopMessage() const {
  wire::Stop stop = outcome_;
  stop.roster = roster_.Infos();
  return stop;
}

void Scheduler::SendStop(Time now, transport::Network& network) {
  next_stop_ = now + std::min(options_.repeat_interval, options_.failure_timeout / 5);
  for (const Member& member : roster_.members()) {
    if (member.info.state == NodeState::kAlive && IsAwaited(member))
      Send(member.peer, StopMessage(), network);
  }
  EndUnlessAwaiting(now);
}

// The scheduler waits for members until they have left, and, when the job failed before
// it was complete, for the nodes that have yet to join: no other process can notify them.
void Scheduler::EndUnlessAwaiting(Time now) {
  if (outcome_.reason == wire::Stop::Reason::kFinished) ExpireMembersThatDidNotLeave(now);
  if (AllHaveLeft() || now >= stop_deadline_) awaits_no_member_ = true;
  const bool all_came =
      roster_.members().size() + refused_incarnations_.size() >= options_.num_workers + options_.num_servers;
  if (awaits_no_member_ && (all_came || now >= latecomers_until_)) done_ = true;
}

// A failed job waits for living members whose connection is open; a member that closed its
// connection without a Leave is not waited for. A job that finished waits for every living server,
// closed or not: the server may reconnect, and must receive the Stop, or it would take the
// scheduler's end for a death. It also waits for finished workers whose connection is open: they
// may repeat their Leave because the Ack was lost, and close the connection once they have it.
bool Scheduler::IsAwaited(const Member& member) const {
  const bool alive = member.info.state == NodeState::kAlive;
  if (outcome_.reason == wire::Stop::Reason::kFailed) return alive && !member.closed;
  return alive ||
         (member.info.state == NodeState::kFinished && member.info.role == Role::kWorker && !member.closed);
}

// After all workers have finished, a server that dies, or had died unnoticed, turns the
// outcome into a failure: it may have had work of its own left. The workers are not affected.
void Scheduler::ExpireMembersThatDidNotLeave(Time now) {
  const bool over = now >= stop_deadline_;
  const auto dead = roster_.ExpireSilent(now, over ? Duration::zero() : options_.heartbeat_timeout);
  if (dead.empty()) return;
  std::vector<std::string> names;
  for (const Member* member : dead) names.push_back(Roster::NameOf(member->info));
  counters_["deaths"] += dead.size();
  outcome_ = {wire::Stop::Reason::kFailed,
              StrCat("the workers have finished, but ", StrJoin(names),
                     " did not end: ", names.size() == 1 ? "it is" : "they are", " dead or unreachable")};
  LOG(ERROR) << WrapLogged(outcome_.message);
}

bool Scheduler::AllHaveLeft() const {
  return std::none_of(roster_.members().begin(), roster_.members().end(),
                      [this](const Member& member) { return IsAwaited(member); });
}

// After a failure, a member may close its connection without waiting for the Ack to its Leave; libzmq would
// keep that Ack until the end of the linger time. Members that are still connected receive theirs at once.
Duration Scheduler::Linger() const {
  return outcome_.reason == wire::Stop::Reason::kFailed ? kLingerAfterFailure : Duration::max();
}

void Scheduler::OnClosed(Time now, transport::PeerId peer, transport::Network& network) {
  for (Member& member : roster_.members()) {
    if (member.peer == peer) member.closed = true;
  }
  if (stopping_) OnTimer(now, network);
}

}  // namespace sluice::scheduler
