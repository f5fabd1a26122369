// The scheduler's dispatch: it checks the sender of each message, answers the requests of members (keys,
// barriers, statistics) or has its parts do so, and runs the timers. Joining is in joining.cc; ending.cc says
// why a job ends.
//
// All methods run on the thread of the loop that drives the machine. Requests may
// be repeated and reordered: every handler is idempotent, and a request that waits
// for servers or other members is answered StillWaiting when it is repeated.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace sluice::scheduler {
namespace {

using wire::NodeState;
using wire::Role;

}  // namespace

Scheduler::Scheduler(const Options& options)
    : options_(options),
      roster_(options.num_workers, options.num_servers, options.shards_per_server, options.heartbeat_timeout),
      keys_(PlacementOf(options, options.shards_per_server.value_or(1))),
      sender_(options.job, options.incarnation, roster_),
      relays_(roster_, sender_, options.repeat_interval),
      optimizer_requests_(roster_, keys_, sender_, relays_),
      end_(options_, roster_, sender_, counters_) {}

void Scheduler::OnStart(Time now, transport::Network&) {
  started_ = now;
  next_report_ = now + options_.report_interval;
}

void Scheduler::OnMessage(Time now, transport::PeerId from, wire::Message message,
                          transport::Network& network) {
  if (std::holds_alternative<wire::Register>(message.body)) return OnRegister(now, from, message, network);
  Member* member = roster_.Find(message.sender);
  if (member != nullptr && member->info.state == NodeState::kDead && end_.has_begun())
    return RejectStale(from, message, end_.StopMessage(), network);
  if (const Member* successor = roster_.FindSuccessor(message.sender))
    return RejectStale(from, message, ReplacedBy(*successor), network);
  if (member == nullptr || member->info.state == NodeState::kDead) {
    ++counters_["messages_of_unknown_senders"];
    if (uint64_t suppressed = 0; limiter_.Allow(now, &suppressed)) {
      LOG(WARNING) << WrapLogged(StrCat("dropped ", wire::Describe(message),
                                        ": its sender is not a living member", SuppressedText(suppressed)));
    }
    return;
  }
  member->OnMessageFrom(now, from);
  Handle(now, from, *member, message, network);
}

void Scheduler::Handle(Time now, transport::PeerId from, Member& member, wire::Message& message,
                       transport::Network& network) {
  const bool asks = std::holds_alternative<wire::GetMembership>(message.body);
  const auto* heartbeat = std::get_if<wire::Heartbeat>(&message.body);
  if (heartbeat != nullptr || asks) {
    // While the job stops, the answer is the Stop and never a bare roster: with
    // a new roster alone, a shard would close rounds without the dead workers.
    if (end_.has_begun()) return sender_.Send(from, end_.StopMessage(), network);
    if (heartbeat != nullptr && heartbeat->asks_to_end) OnAskedToEnd(member, network);
    return asks ? sender_.Send(from, wire::Membership{roster_.Infos()}, network)
                : sender_.Send(from, wire::HeartbeatAck{asked_to_end_}, network);
  }
  if (std::holds_alternative<wire::Ack>(message.body))
    return optimizer_requests_.OnRelayed(relays_.OnAck(member, message.in_reply_to, network), network);
  if (std::holds_alternative<wire::Barrier>(message.body)) return OnBarrier(member, message, network);
  if (std::holds_alternative<wire::DeclareKeys>(message.body))
    return OnDeclare(now, member, message, network);
  if (std::holds_alternative<wire::SetOptimizer>(message.body))
    return optimizer_requests_.OnSet(now, member, message, network);
  if (std::holds_alternative<wire::AwaitOptimizer>(message.body))
    return optimizer_requests_.OnAwait(member, message, network);
  if (std::holds_alternative<wire::Leave>(message.body)) return OnLeave(now, member, message, network);
  if (std::holds_alternative<wire::GetStats>(message.body)) {
    wire::Stats stats{counters_};
    if (options_.process_counters) stats.counters.merge(options_.process_counters());
    return sender_.Send(from, std::move(stats), network, message.id);
  }
  if (const auto* error = std::get_if<wire::ErrorReply>(&message.body)) {
    return optimizer_requests_.OnRelayed(relays_.OnError(member, message.in_reply_to, *error, network),
                                         network);
  }
  ++counters_["unexpected_messages"];
  sender_.SendError(
      from, Fail(ErrorCode::kInvalidArgument, "the scheduler does not take ", wire::BodyName(message.body)),
      network, message.id);
}

// The scheduler only passes the request on; the workers end the job themselves. A worker
// that misses this message gets the same flag with the answer to its next heartbeat.
void Scheduler::OnAskedToEnd(const Member& member, transport::Network& network) {
  if (member.info.role != Role::kWorker || std::exchange(asked_to_end_, true)) return;
  VLOG(1) << Roster::NameOf(member.info) << " was asked to end; the other workers are told";
  for (const Member& other : roster_.members()) {
    if (other.info.role == Role::kWorker && other.info.state == NodeState::kAlive &&
        other.peer != member.peer)
      sender_.Send(other.peer, wire::HeartbeatAck{asked_to_end_}, network);
  }
}

void Scheduler::OnDeclare(Time now, const Member& member, const wire::Message& message,
                          transport::Network& network) {
  if (!complete_) {  // the number of shards may not be known yet
    return sender_.SendError(
        member.peer,
        Fail(ErrorCode::kFailedPrecondition,
             "keys are declared once the job is complete; missing: ", roster_.MissingText()),
        network, message.id);
  }
  const auto known = keys_.entries().size();
  const auto& request = std::get<wire::DeclareKeys>(message.body);
  if (request.part.total > 0) return OnDeclarePart(member, message, network);
  const auto ids = keys_.Declare(request, Roster::NameOf(member.info));
  if (!ids) return sender_.SendError(member.peer, ids.failure(), network, message.id);
  if (relays_.AnswerRepeated(member, message.id, network)) return;
  counters_["keys"] += keys_.entries().size() - known;
  wire::KeyTable answer;
  for (const uint32_t id : ids.value()) answer.entries.push_back(keys_.entries()[id]);
  // Keys that are known already are announced again too: the
  // relay that announced them first may still be unacknowledged.
  wire::AnnounceKeys announcement{answer.entries};
  relays_.Start(now, member, message.id, std::move(announcement), std::move(answer), network);
}

// With the last part of a declaration, all its keys enter the key table. They
// are announced to the servers, like keys that are known already, when the
// worker then requests the entries, in as many messages as their size requires.
void Scheduler::OnDeclarePart(const Member& member, const wire::Message& message,
                              transport::Network& network) {
  const auto known = keys_.entries().size();
  const Status status =
      partial_declarations_.Add(member.info.incarnation, std::get<wire::DeclareKeys>(message.body),
                                Roster::NameOf(member.info), &keys_);
  counters_["keys"] += keys_.entries().size() - known;
  if (status) return sender_.Send(member.peer, wire::Ack{}, network, message.id);
  sender_.SendError(member.peer, status.failure(), network, message.id);
}

void Scheduler::OnBarrier(const Member& member, const wire::Message& message, transport::Network& network) {
  const auto& request = std::get<wire::Barrier>(message.body);
  const Barriers::Waiter who{{member.info.role, member.info.rank}, member.peer, message.id};
  const auto arrival = barriers_.Arrive(request, who, roster_);
  if (!arrival) {
    return sender_.SendError(member.peer, arrival.failure(), network, message.id);
  }
  if (!arrival.value().released) {
    return sender_.Send(member.peer, wire::StillWaiting{request.id, arrival.value().missing}, network,
                        message.id);
  }
  if (const size_t members = arrival.value().waiters.size(); members > 1)
    VLOG(1) << "barrier '" << request.id << "' released, " << members << " members";
  for (const auto& waiter : arrival.value().waiters)
    sender_.Send(waiter.peer, wire::BarrierReleased{*arrival.value().text}, network, waiter.request_id);
}

void Scheduler::BroadcastMembership(transport::Network& network) {
  if (!complete_) return;
  const auto infos = roster_.Infos();
  for (const Member& member : roster_.members()) {
    if (member.info.state == NodeState::kAlive) sender_.Send(member.peer, wire::Membership{infos}, network);
  }
}

void Scheduler::OnTimer(Time now, transport::Network& network) {
  if (end_.has_begun()) return end_.OnTimer(now, network);
  const auto dead = roster_.ExpireSilent(now, options_.heartbeat_timeout);
  if (!dead.empty()) {
    return OnDeath(now, dead,
                   StrCat("silent for ", ToSeconds(options_.heartbeat_timeout), " s (PS_HEARTBEAT_TIMEOUT)"),
                   network);
  }
  if (!complete_ && now - started_ >= options_.rendezvous_timeout) {
    return StopJob(now,
                   {wire::Stop::Reason::kFailed,
                    StrCat("not everybody joined within ", ToSeconds(options_.rendezvous_timeout),
                           " s (SLUICE_RENDEZVOUS_TIMEOUT): missing ", roster_.MissingText())},
                   network);
  }
  if (!complete_ && now >= next_report_) {
    next_report_ = now + options_.report_interval;
    if (!options_.on_waiting || !options_.on_waiting())
      LOG(INFO) << WrapLogged(
          StrCat("waiting for ", roster_.MissingText(), "; joined: ", roster_.JoinedText()));
  }
  relays_.RepeatDue(now, network);
}

Time Scheduler::NextTimer() const {
  if (end_.done()) return Time::max();
  if (end_.has_begun()) return end_.NextTimer();
  const Time next = complete_ ? Time::max() : std::min(next_report_, started_ + options_.rendezvous_timeout);
  return std::min({next, NextSilence(roster_, options_.heartbeat_timeout), relays_.NextRepeat()});
}

std::string Scheduler::DumpState(Time now) const {
  std::string text =
      StrCat("scheduler: epoch ", roster_.epoch(), ", ", roster_.NumDead(), " dead, ", keys_.entries().size(),
             " keys", end_.has_begun() ? StrCat(", stopping: ", outcome().message) : "", "\n");
  if (!complete_) text += StrCat("waiting for ", roster_.MissingText(), "\n");
  for (const Member& member : roster_.members()) {
    constexpr const char* kStates[] = {"alive", "dead", "finished"};
    text += StrCat(Roster::NameOf(member.info), ": ", kStates[static_cast<int>(member.info.state)],
                   ", heard ", ToSeconds(now - member.last_heard), " s ago\n");
  }
  text += barriers_.Describe();
  return text + relays_.Describe();
}

}  // namespace sluice::scheduler
