// JobSession: joining, the end of the job, and leaving it.
//
// The client's loop calls everything here. Leaving without an error has three steps: Flush, PingServers,
// SendLeave. After End no call is open, and every later one fails with the same error.
#include "worker/session/job_session.h"

#include <algorithm>
#include <memory>

#include "base/strings.h"

namespace sluice::worker {
namespace {

constexpr Duration kLeaveRepeat = 200ms;

}  // namespace

void JobSession::WhenJoined(Done done) {
  if (failure_) return done(*failure_);
  if (parts_.membership.state() == membership::MemberState::kMember) return done(Status::Ok());
  when_joined_.push_back(std::move(done));
}

void JobSession::OnMembershipChange(transport::Network& network) {
  if (parts_.membership.state() == membership::MemberState::kMember && parts_.connections.size() == 0) {
    parts_.connections.Connect(network);
    for (auto& done : std::exchange(when_joined_, {}))
      parts_.completions.Add([done](Time, transport::Network&) { done(Status::Ok()); });
  }
  if (parts_.membership.state() == membership::MemberState::kStopped && !failure_) {
    const wire::Stop& stop = *parts_.membership.stop();
    const bool failed = stop.reason == wire::Stop::Reason::kFailed;
    if (failed && parts_.membership.stopped_by_scheduler() && on_job_failed_) on_job_failed_(stop.message);
    End(Failure{failed ? ErrorCode::kUnavailable : ErrorCode::kCancelled, stop.message});
    // A shard may be dead, and messages that are queued for it would delay the end of this process.
    if (failed) parts_.connections.Disconnect(network);
  }
}

void JobSession::End(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  for (auto& done : std::exchange(when_joined_, {}))
    parts_.completions.Add([done, failure](Time, transport::Network&) { done(failure); });
  parts_.operations.FailAll(failure);
  parts_.requests.FailAll(failure);
  for (auto& flush : std::exchange(flushes_, {}))
    parts_.completions.Add(
        [done = std::move(flush.done), failure](Time, transport::Network&) { done(failure); });
}

void JobSession::OnTimer(Time now, transport::Network& network) {
  if (failure_) return;
  parts_.membership.OnTimer(now, network);
  OnMembershipChange(network);
}

Time JobSession::NextTimer() const {
  Time next = failure_ ? Time::max() : parts_.membership.NextTimer();
  for (const FlushCall& flush : flushes_) next = std::min(next, flush.deadline);
  return next;
}

void JobSession::Flush(Time now, Time deadline, Done done, transport::Network& network) {
  if (failure_) return done(*failure_);
  parts_.open.FinishReads(Fail(ErrorCode::kCancelled, "this worker has left the job"));
  flushes_.push_back({deadline, std::move(done)});
  parts_.connections.Flush(now, network);
  CheckFlushed(now);
  parts_.completions.Run(now, network);
}

void JobSession::CheckFlushed(Time now) {
  if (flushes_.empty()) return;
  const bool stored = parts_.open.AllStored();
  for (FlushCall& call : flushes_) {
    if (!stored && now < call.deadline) continue;
    Status status;
    if (!stored) {
      status = Fail(ErrorCode::kDeadlineExceeded,
                    "the servers do not have all that this worker pushed: ", parts_.open.DescribeUnstored());
    }
    parts_.completions.Add(
        [done = std::exchange(call.done, nullptr), status](Time, transport::Network&) { done(status); });
  }
  std::erase_if(flushes_, [](const FlushCall& call) { return call.done == nullptr; });
}

void JobSession::Leave(Time now, wire::Leave leave, Time deadline, Done done, transport::Network& network) {
  if (failure_ || !parts_.membership.IsRegistered()) {
    // After a failure the other nodes have been notified already, so one leave message is sent, without
    // waiting for the answer. A worker that is not registered just ends.
    if (failure_)
      network.Send(parts_.membership.scheduler(),
                   parts_.messages.Make(std::move(leave), parts_.messages.TakeId()));
    has_left_ = true;
    return done(failure_ ? Status(*failure_) : Status::Ok());
  }
  if (leave.outcome != wire::Leave::Outcome::kFinished)
    return SendLeave(now, std::move(leave), deadline, std::move(done), network);
  const auto seen = [this, leave = std::move(leave), deadline, done = std::move(done)](
                        Time at, transport::Network& net, const Status& status) {
    if (status.ok()) return SendLeave(at, leave, deadline, done, net);
    done(status);
  };
  PingServers(now, deadline, seen, network);
}

void JobSession::PingServers(Time now, Time deadline, const TimedDone& done, transport::Network& network) {
  if (parts_.connections.size() == 0) return done(now, network, Status::Ok());
  struct Seen {
    size_t left;
    Status status;
  };
  const auto seen = std::make_shared<Seen>(Seen{parts_.connections.size(), Status::Ok()});
  for (uint32_t i = 0; i < parts_.connections.size(); ++i) {
    const ShardConnection& shard = parts_.connections[i];
    const auto answered = [seen, done](Time at, transport::Network& net, const Result<wire::Body>& answer) {
      if (!answer && seen->status.ok()) seen->status = answer.failure();
      if (--seen->left == 0) done(at, net, seen->status);
    };
    parts_.requests.Ask(now,
                        {shard.peer(), wire::GetStats{}, "leaving the job", deadline, answered,
                         StrCat("server ", shard.server(), " to answer"), kLeaveRepeat},
                        network);
  }
}

void JobSession::SendLeave(Time now, wire::Leave leave, Time deadline, Done done,
                           transport::Network& network) {
  const bool tries_once = leave.outcome != wire::Leave::Outcome::kFinished;
  auto on_answer = [this, tries_once, done = std::move(done)](Time, transport::Network&,
                                                              const Result<wire::Body>& answer) {
    // A stop because all workers have finished implies the acknowledgement, which was lost.
    const bool ended = !answer && parts_.membership.state() == membership::MemberState::kStopped &&
                       parts_.membership.stop()->reason == wire::Stop::Reason::kFinished;
    const bool left = answer || ended;
    if (!left && !tries_once) return done(answer.failure());
    parts_.membership.Leave();
    has_left_ = true;
    // A stream that waits for an open operation would delay the end of the process.
    End(Fail(ErrorCode::kCancelled, "this worker has left the job"));
    done(left ? Status::Ok() : Status(answer.failure()));
  };
  parts_.requests.Ask(now,
                      {.to = parts_.membership.scheduler(),
                       .body = std::move(leave),
                       .what = "leaving the job",
                       .deadline = deadline,
                       .done = std::move(on_answer),
                       .repeat = kLeaveRepeat},
                      network);
}

std::string JobSession::DumpState() const {
  return flushes_.empty() ? "" : "  leaving: waits until the servers have what was pushed\n";
}

}  // namespace sluice::worker
