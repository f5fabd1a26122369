// Joining: registration, replacement of a member by its restarted process, and refusal.
//
// A node repeats its Register every second until it has the complete Welcome; the scheduler
// answers each. A Register alone never replaces a member, since it may be a delayed
// message: the process that claims a member's identity must first answer a challenge.
// Before the job is complete it then takes the place; afterwards its return proves the
// member's death and ends the job. All methods run on the thread of the scheduler's loop.
#include "base/strings.h"
#include "scheduler/scheduler.h"

namespace sluice::scheduler {

using Standing = Roster::Standing;

namespace {

// Whether the job failed, which others say, or this process alone has come too late.
Failure HasEnded(const wire::Stop& outcome) {
  const bool failed = outcome.reason == wire::Stop::Reason::kFailed;
  return Fail(failed ? ErrorCode::kUnavailable : ErrorCode::kCancelled,
              "the job has ended: ", outcome.message);
}

void RejectJoin(const MessageSender& sender, transport::PeerId from, const Failure& failure,
                transport::Network& network) {
  LOG(WARNING) << WrapLogged("refused a node, which is told why: " + failure.message);
  sender.SendError(from, failure, network);
}

}  // namespace

void Scheduler::OnRegister(Time now, transport::PeerId from, const wire::Message& message,
                           transport::Network& network) {
  if (end_.has_begun() && roster_.Find(message.sender) != nullptr)
    return sender_.Send(from, end_.StopMessage(), network);
  if (end_.has_begun()) {
    RejectJoin(sender_, from, HasEnded(outcome()), network);
    return end_.OnRefused(now, message.sender.incarnation);
  }
  const auto& request = std::get<wire::Register>(message.body);
  const bool undecided = !roster_.shards_per_server();
  const auto result = roster_.Register(now, from, message.sender, request, message.in_reply_to);
  if (!result) return RejectJoin(sender_, from, result.failure(), network);
  Member& member = *result.value().member;
  switch (result.value().standing) {
    case Standing::kReplaced:
      return RejectStale(from, message, ReplacedBy(member), network);
    case Standing::kClaimant:  // the id of the Welcome is the challenge
      return sender_.Send(
          from, wire::Welcome{wire::Welcome::State::kWaiting, member.info.rank, roster_.MissingText(), {}, 0},
          network, 0, member.claim.challenge);
    case Standing::kReturned:
      return OnReturn(now, from, member, message, network);
    case Standing::kJoined:
      // on_joined comes before the log line: a reader of the log line may end this process at once.
      if (options_.on_joined) options_.on_joined(member.info);
      VLOG(1) << Roster::NameOf(member.info) << " joined, " << roster_.members().size() << " of "
              << roster_.num_servers() + roster_.num_workers();
      if (undecided && roster_.shards_per_server()) SendThreadCount(network);
      break;
    case Standing::kKnown:
      break;
  }
  if (!complete_ && roster_.complete()) return Complete(now, network);
  sender_.Send(from, WelcomeFor(member), network);
}

void Scheduler::SendThreadCount(transport::Network& network) {
  VLOG(1) << "every server runs " << Counted(*roster_.shards_per_server(), "key-owning thread");
  for (const Member& member : roster_.members()) {
    if (member.info.role == wire::Role::kServer && member.info.shard_addresses.empty())
      sender_.Send(member.peer, WelcomeFor(member), network);
  }
}

void Scheduler::OnReturn(Time now, transport::PeerId from, Member& member, const wire::Message& message,
                         transport::Network& network) {
  const auto& request = std::get<wire::Register>(message.body);
  const std::string successor =
      StrCat("a new process (host ", request.host, ", pid ", request.pid, ") has come with its identity '",
             member.identity, "' (SLUICE_NODE_ID)");
  if (complete_) {  // rounds may hold pushes of the former process, so its place stays taken
    roster_.SetState(member, wire::NodeState::kDead);
    OnDeath(now, {&member}, successor, network);
    return RejectJoin(sender_, from, HasEnded(outcome()), network);
  }
  LOG(WARNING) << WrapLogged(StrCat(Roster::NameOf(member.info), " is replaced: ", successor));
  const transport::PeerId former = member.peer;
  roster_.Replace(now, member, from, message.sender, request);
  sender_.Send(former, ReplacedBy(member), network);
  sender_.Send(from, WelcomeFor(member), network);
}

void Scheduler::RejectStale(transport::PeerId from, const wire::Message& message, wire::Stop why,
                            transport::Network& network) {
  if (std::holds_alternative<wire::Leave>(message.body))
    return sender_.Send(from, wire::Ack{}, network, message.id);
  sender_.Send(from, std::move(why), network);
}

wire::Welcome Scheduler::WelcomeFor(const Member& member) const {
  const uint32_t threads = roster_.shards_per_server().value_or(0);
  if (!complete_)
    return {wire::Welcome::State::kWaiting, member.info.rank, roster_.MissingText(), {}, threads};
  return {wire::Welcome::State::kComplete, member.info.rank, {}, roster_.Infos(), threads};
}

void Scheduler::Complete(Time now, transport::Network& network) {
  complete_ = true;
  keys_ = JobKeyTable(PlacementOf(options_, roster_.shards_per_server().value_or(1)));
  if (options_.on_complete) options_.on_complete();
  VLOG(1) << "the job is complete after "
          << std::chrono::duration_cast<std::chrono::milliseconds>(now - started_).count() << " ms";
  for (const Member& member : roster_.members()) sender_.Send(member.peer, WelcomeFor(member), network);
}

}  // namespace sluice::scheduler
