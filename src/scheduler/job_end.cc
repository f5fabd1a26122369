// The end of a job: the Stop for all members, and the wait for those that remain.
//
// The first Begin decides the outcome. From then on every member receives a Stop, repeated until it has left,
// and the job is done when no member is waited for, at stop_deadline_ at the latest; a job that failed before
// it was complete also waits for nodes that have yet to join, until latecomers_until_. Scheduler calls all of
// it on its loop's thread.
#include "scheduler/job_end.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/reported.h"
#include "base/strings.h"

namespace sluice::scheduler {

using wire::NodeState;
using wire::Role;

namespace {

constexpr Duration kLingerAfterFailure = 100ms;

}  // namespace

void JobEnd::Begin(Time now, wire::Stop stop, Time latecomers_until, transport::Network& network,
                   const Member* reported_by) {
  if (begun_) return;
  begun_ = true;
  outcome_ = std::move(stop);
  latecomers_until_ = latecomers_until;
  const bool failed = outcome_.reason == wire::Stop::Reason::kFailed;
  stop_deadline_ = now + (failed ? options_.failure_timeout : options_.finish_timeout);
  if (failed) {
    const std::string what = "the job stops: " + outcome_.message;
    LOG(ERROR) << WrapLogged(
        reported_by == nullptr
            ? what
            : ReportedBy(StrCat(wire::Name(reported_by->info.role), " ", reported_by->info.rank), what));
  }
  SendStop(now, network);
}

void JobEnd::IgnoreLatecomers(Time now) {
  latecomers_until_ = now;
  EndUnlessAwaiting(now);
}

void JobEnd::OnRefused(Time now, uint64_t incarnation) {
  refused_incarnations_.insert(incarnation);
  EndUnlessAwaiting(now);
}

void JobEnd::OnTimer(Time now, transport::Network& network) {
  if (!awaits_no_member_ && now >= next_stop_) SendStop(now, network);
  EndUnlessAwaiting(now);
}

Time JobEnd::NextTimer() const {
  if (awaits_no_member_) return latecomers_until_;
  if (AllHaveLeft()) return Time::min();
  const bool expires = outcome_.reason == wire::Stop::Reason::kFinished;
  return std::min(
      {next_stop_, stop_deadline_, expires ? NextSilence(roster_, options_.heartbeat_timeout) : Time::max()});
}

wire::Stop JobEnd::StopMessage() const {
  wire::Stop stop = outcome_;
  stop.roster = roster_.Infos();
  return stop;
}

void JobEnd::SendStop(Time now, transport::Network& network) {
  next_stop_ = now + std::min(options_.repeat_interval, options_.failure_timeout / 5);
  for (const Member& member : roster_.members()) {
    if (member.info.state == NodeState::kAlive && IsAwaited(member))
      sender_.Send(member.peer, StopMessage(), network);
  }
  EndUnlessAwaiting(now);
}

// The scheduler waits for members until they have left, and, when the job failed before
// it was complete, for the nodes that have yet to join: no other process can notify them.
void JobEnd::EndUnlessAwaiting(Time now) {
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
bool JobEnd::IsAwaited(const Member& member) const {
  const bool alive = member.info.state == NodeState::kAlive;
  if (outcome_.reason == wire::Stop::Reason::kFailed) return alive && !member.closed;
  return alive ||
         (member.info.state == NodeState::kFinished && member.info.role == Role::kWorker && !member.closed);
}

// After all workers have finished, a server that dies, or had died unnoticed, turns the
// outcome into a failure: it may have had work of its own left. The workers are not affected.
void JobEnd::ExpireMembersThatDidNotLeave(Time now) {
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

bool JobEnd::AllHaveLeft() const {
  return std::none_of(roster_.members().begin(), roster_.members().end(),
                      [this](const Member& member) { return IsAwaited(member); });
}

// After a failure, a member may close its connection without waiting for the Ack to its Leave; libzmq would
// keep that Ack until the end of the linger time. Members that are still connected receive theirs at once.
Duration JobEnd::Linger() const {
  return outcome_.reason == wire::Stop::Reason::kFailed ? kLingerAfterFailure : Duration::max();
}

}  // namespace sluice::scheduler
