// The scheduler's dispatch: it checks the sender of each message, answers the requests of
// members (keys, optimiser, barriers, statistics), relays what every server must acknowledge,
// and runs the timers. Joining is in joining.cc, the end of the job in ending.cc.
//
// All methods run on the thread of the loop that drives the machine. Requests may
// be repeated and reordered: every handler is idempotent, and a request that waits
// for servers or other members is answered StillWaiting when it is repeated.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "kvstore/update/update.h"

namespace sluice::scheduler {
namespace {

using wire::NodeState;
using wire::Role;

constexpr size_t kAnswersKept = 4096;

plan::PlacementOptions PlacementOf(const Options& options, uint32_t shards_per_server) {
  return {.num_shards = options.num_servers * shards_per_server,
          .bigarray_bound = options.bigarray_bound,
          .part_bytes = options.part_bytes};
}

// The servers that have not acknowledged, as "server 0, server 2".
std::string MissingAcks(const std::map<uint32_t, bool>& acked) {
  std::vector<std::string> names;
  for (const auto& [rank, has_acked] : acked)
    if (!has_acked) names.push_back(StrCat("server ", rank));
  return StrJoin(names);
}

}  // namespace

Scheduler::Scheduler(const Options& options)
    : options_(options),
      roster_(options.num_workers, options.num_servers, options.shards_per_server, options.heartbeat_timeout),
      keys_(PlacementOf(options, options.shards_per_server.value_or(1))) {}

void Scheduler::CountShards() {
  keys_ = KeyTable(PlacementOf(options_, roster_.shards_per_server().value_or(1)));
}

void Scheduler::OnStart(Time now, transport::Network&) {
  started_ = now;
  next_report_ = now + options_.report_interval;
}

void Scheduler::Send(transport::PeerId to, wire::Body body, transport::Network& network, uint64_t in_reply_to,
                     uint64_t id) {
  wire::Message message;
  message.job = options_.job;
  message.sender = {Role::kScheduler, 0, options_.incarnation};
  message.id = id;
  message.in_reply_to = in_reply_to;
  message.epoch = roster_.epoch();
  message.body = std::move(body);
  network.Send(to, std::move(message));
}

void Scheduler::OnMessage(Time now, transport::PeerId from, wire::Message message,
                          transport::Network& network) {
  if (std::holds_alternative<wire::Register>(message.body)) return OnRegister(now, from, message, network);
  Member* member = roster_.Find(message.sender);
  if (member != nullptr && member->info.state == NodeState::kDead && stopping_)
    return RejectStale(from, message, StopMessage(), network);
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
    if (stopping_) return Send(from, StopMessage(), network);
    if (heartbeat != nullptr && heartbeat->asks_to_end) OnAskedToEnd(member, network);
    return asks ? Send(from, wire::Membership{roster_.Infos()}, network)
                : Send(from, wire::HeartbeatAck{asked_to_end_}, network);
  }
  if (std::holds_alternative<wire::Ack>(message.body))
    return OnServerAck(member, message.in_reply_to, network);
  if (std::holds_alternative<wire::Barrier>(message.body)) return OnBarrier(member, message, network);
  if (std::holds_alternative<wire::DeclareKeys>(message.body))
    return OnDeclare(now, member, message, network);
  if (std::holds_alternative<wire::SetOptimizer>(message.body))
    return OnSetOptimizer(now, member, message, network);
  if (std::holds_alternative<wire::AwaitOptimizer>(message.body))
    return OnAwaitOptimizer(member, message, network);
  if (std::holds_alternative<wire::Leave>(message.body)) return OnLeave(now, member, message, network);
  if (std::holds_alternative<wire::GetStats>(message.body)) {
    wire::Stats stats{counters_};
    if (options_.process_counters) stats.counters.merge(options_.process_counters());
    return Send(from, std::move(stats), network, message.id);
  }
  if (const auto* error = std::get_if<wire::ErrorReply>(&message.body)) {
    const auto it = relays_.find(message.in_reply_to);
    if (it == relays_.end()) return;
    it->second.answer =
        wire::ErrorReply{error->code, StrCat(Roster::NameOf(member.info), ": ", error->message)};
    return OnServerAck(member, message.in_reply_to, network);
  }
  ++counters_["unexpected_messages"];
  const std::string why = StrCat("the scheduler does not take ", wire::BodyName(message.body));
  Send(from, wire::ErrorReply{ErrorCode::kInvalidArgument, why}, network, message.id);
}

// The scheduler only passes the request on; the workers end the job themselves. A worker
// that misses this message gets the same flag with the answer to its next heartbeat.
void Scheduler::OnAskedToEnd(const Member& member, transport::Network& network) {
  if (member.info.role != Role::kWorker || std::exchange(asked_to_end_, true)) return;
  VLOG(1) << Roster::NameOf(member.info) << " was asked to end; the other workers are told";
  for (const Member& other : roster_.members()) {
    if (other.info.role == Role::kWorker && other.info.state == NodeState::kAlive &&
        other.peer != member.peer)
      Send(other.peer, wire::HeartbeatAck{asked_to_end_}, network);
  }
}

void Scheduler::OnDeclare(Time now, const Member& member, const wire::Message& message,
                          transport::Network& network) {
  if (!complete_) {  // the number of shards may not be known yet
    const std::string why =
        StrCat("keys are declared once the job is complete; missing: ", roster_.MissingText());
    return Send(member.peer, wire::ErrorReply{ErrorCode::kFailedPrecondition, why}, network, message.id);
  }
  const auto known = keys_.entries().size();
  const auto& request = std::get<wire::DeclareKeys>(message.body);
  if (request.part.total > 0) return OnDeclarePart(member, message, network);
  const auto ids = keys_.Declare(request, Roster::NameOf(member.info));
  if (!ids)
    return Send(member.peer, wire::ErrorReply{ids.failure().code, ids.failure().message}, network,
                message.id);
  Relay relay;
  wire::KeyTable answer;
  for (const uint32_t id : ids.value()) answer.entries.push_back(keys_.entries()[id]);
  // Keys that are known already are announced again too: the
  // relay that announced them first may still be unacknowledged.
  relay.body = wire::AnnounceKeys{answer.entries};
  relay.answer = std::move(answer);
  relay.requester = member.info.incarnation;
  relay.request_id = message.id;
  if (const Relay* repeated = FindRelay(member, message.id))
    return SendStillWaiting(member, *repeated, network);
  counters_["keys"] += keys_.entries().size() - known;
  StartRelay(now, std::move(relay), network);
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
  if (status) return Send(member.peer, wire::Ack{}, network, message.id);
  Send(member.peer, wire::ErrorReply{status.failure().code, status.failure().message}, network, message.id);
}

void Scheduler::OnSetOptimizer(Time now, const Member& member, const wire::Message& message,
                               transport::Network& network) {
  const auto& request = std::get<wire::SetOptimizer>(message.body);
  if (member.info.role != Role::kWorker || member.info.rank != 0) {
    return Send(member.peer,
                wire::ErrorReply{ErrorCode::kPermissionDenied, "only worker 0 sets the optimiser"}, network,
                message.id);
  }
  if (const std::string why = InvalidReason(request.config); !why.empty()) {
    return Send(member.peer, wire::ErrorReply{ErrorCode::kInvalidArgument, why}, network, message.id);
  }
  const kvstore::UpdateRule rule{.optimizer = Optimizer::Create(request.config), .updater = nullptr};
  for (const wire::KeyEntry& entry : keys_.entries()) {  // all servers accept the rule or none
    if (entry.spec.store != request.store) continue;
    if (Status status = kvstore::ValidateRule(rule, entry); !status) {
      return Send(member.peer, wire::ErrorReply{status.failure().code, status.failure().message}, network,
                  message.id);
    }
  }
  const std::pair answered(member.info.incarnation, message.id);
  if (const auto it = answered_.find(answered); it != answered_.end()) {
    return Send(member.peer, it->second, network, message.id);
  }
  if (const Relay* repeated = FindRelay(member, message.id))
    return SendStillWaiting(member, *repeated, network);
  VLOG(1) << "optimiser " << Name(request.config.kind) << ", learning rate "
          << rule.optimizer->config().learning_rate;
  Relay relay;
  relay.body = request;
  relay.answer = wire::Ack{};
  relay.requester = member.info.incarnation;
  relay.request_id = message.id;
  StartRelay(now, std::move(relay), network);
}

void Scheduler::OnAwaitOptimizer(const Member& member, const wire::Message& message,
                                 transport::Network& network) {
  const uint32_t store = std::get<wire::AwaitOptimizer>(message.body).store;
  if (with_optimizer_.contains(store)) return Send(member.peer, wire::Ack{}, network, message.id);
  if (WorkerZeroHasLeft()) return RefuseOptimizer(member.peer, message.id, network);
  await_optimizer_[{store, member.peer}] = message.id;
  Send(member.peer, wire::StillWaiting{"optimiser", "worker 0 to set the optimiser"}, network, message.id);
}

bool Scheduler::WorkerZeroHasLeft() const {
  return std::ranges::any_of(roster_.members(), [](const Member& member) {
    return member.info.role == Role::kWorker && member.info.rank == 0 &&
           member.info.state == NodeState::kFinished;
  });
}

void Scheduler::RefuseOptimizer(transport::PeerId peer, uint64_t request, transport::Network& network) {
  Send(peer,
       wire::ErrorReply{ErrorCode::kFailedPrecondition,
                        "worker 0 has left the job and has not set the optimiser: nobody else does"},
       network, request);
}

void Scheduler::OnOptimizerSet(uint32_t store, transport::Network& network) {
  with_optimizer_.insert(store);
  std::erase_if(await_optimizer_, [&](const auto& waiting) {
    const auto& [of, peer] = waiting.first;
    if (of == store) Send(peer, wire::Ack{}, network, waiting.second);
    return of == store;
  });
}

uint64_t Scheduler::StartRelay(Time now, Relay relay, transport::Network& network) {
  for (uint32_t rank = 0; rank < options_.num_servers; ++rank) relay.acked[rank] = false;
  const uint64_t id = next_relay_++;
  SendRelay(now, id, relays_.emplace(id, std::move(relay)).first->second, network);
  return id;
}

const Scheduler::Relay* Scheduler::FindRelay(const Member& member, uint64_t request_id) const {
  const auto it = std::ranges::find_if(relays_, [&](const auto& entry) {
    return entry.second.requester == member.info.incarnation && entry.second.request_id == request_id;
  });
  return it == relays_.end() ? nullptr : &it->second;
}

// Answers a repeated request with the names of the servers that have not acknowledged the relay yet.
void Scheduler::SendStillWaiting(const Member& member, const Relay& relay, transport::Network& network) {
  Send(member.peer,
       wire::StillWaiting{std::string(wire::BodyName(relay.body)),
                          MissingAcks(relay.acked) + " to acknowledge"},
       network, relay.request_id);
}

void Scheduler::SendRelay(Time now, uint64_t id, Relay& relay, transport::Network& network) {
  relay.next_repeat = now + options_.repeat_interval;
  for (const Member& member : roster_.members()) {
    if (member.info.role == Role::kServer && !relay.acked[member.info.rank])
      Send(member.peer, relay.body, network, 0, id);
  }
}

void Scheduler::OnServerAck(const Member& member, uint64_t relay_id, transport::Network& network) {
  const auto it = relays_.find(relay_id);
  if (it == relays_.end() || member.info.role != Role::kServer) return;
  Relay& relay = it->second;
  relay.acked[member.info.rank] = true;
  if (!std::all_of(relay.acked.begin(), relay.acked.end(), [](const auto& entry) { return entry.second; }))
    return;
  for (const Member& worker : roster_.members()) {
    if (worker.info.incarnation == relay.requester)
      Send(worker.peer, relay.answer, network, relay.request_id);
  }
  if (const auto* set = std::get_if<wire::SetOptimizer>(&relay.body)) {
    if (std::holds_alternative<wire::Ack>(relay.answer)) OnOptimizerSet(set->store, network);
    const std::pair key(relay.requester, relay.request_id);
    answered_[key] = relay.answer;
    answered_order_.push_back(key);
    while (answered_order_.size() > kAnswersKept) {
      answered_.erase(answered_order_.front());
      answered_order_.pop_front();
    }
  }
  relays_.erase(it);
}

void Scheduler::OnBarrier(const Member& member, const wire::Message& message, transport::Network& network) {
  const auto& request = std::get<wire::Barrier>(message.body);
  const Barriers::Waiter who{{member.info.role, member.info.rank}, member.peer, message.id};
  const auto arrival = barriers_.Arrive(request, who, roster_);
  if (!arrival) {
    return Send(member.peer, wire::ErrorReply{arrival.failure().code, arrival.failure().message}, network,
                message.id);
  }
  if (!arrival.value().released) {
    return Send(member.peer, wire::StillWaiting{request.id, arrival.value().missing}, network, message.id);
  }
  if (const size_t members = arrival.value().waiters.size(); members > 1)
    VLOG(1) << "barrier '" << request.id << "' released, " << members << " members";
  for (const auto& waiter : arrival.value().waiters)
    Send(waiter.peer, wire::BarrierReleased{*arrival.value().text}, network, waiter.request_id);
}

void Scheduler::BroadcastMembership(transport::Network& network) {
  if (!complete_) return;
  const auto infos = roster_.Infos();
  for (const Member& member : roster_.members()) {
    if (member.info.state == NodeState::kAlive) Send(member.peer, wire::Membership{infos}, network);
  }
}

void Scheduler::OnTimer(Time now, transport::Network& network) {
  if (stopping_) {
    if (!awaits_no_member_ && now >= next_stop_) SendStop(now, network);
    return EndUnlessAwaiting(now);
  }
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
  for (auto& [id, relay] : relays_) {
    if (now >= relay.next_repeat) SendRelay(now, id, relay, network);
  }
}

// The time at which the next living member will have been silent for heartbeat_timeout.
Time Scheduler::NextSilence() const {
  Time next = Time::max();
  for (const Member& member : roster_.members()) {
    if (member.info.state == NodeState::kAlive)
      next = std::min(next, member.last_heard + options_.heartbeat_timeout);
  }
  return next;
}

Time Scheduler::NextTimer() const {
  if (done_) return Time::max();
  if (stopping_) {
    if (awaits_no_member_) return latecomers_until_;
    if (AllHaveLeft()) return Time::min();
    const bool buries = outcome_.reason == wire::Stop::Reason::kFinished;
    return std::min({next_stop_, stop_deadline_, buries ? NextSilence() : Time::max()});
  }
  Time next = complete_ ? Time::max() : std::min(next_report_, started_ + options_.rendezvous_timeout);
  next = std::min(next, NextSilence());
  for (const auto& [id, relay] : relays_) next = std::min(next, relay.next_repeat);
  return next;
}

std::string Scheduler::DumpState(Time now) const {
  std::string text =
      StrCat("scheduler: epoch ", roster_.epoch(), ", ", roster_.NumDead(), " dead, ", keys_.entries().size(),
             " keys", stopping_ ? StrCat(", stopping: ", outcome_.message) : "", "\n");
  if (!complete_) text += StrCat("waiting for ", roster_.MissingText(), "\n");
  for (const Member& member : roster_.members()) {
    constexpr const char* kStates[] = {"alive", "dead", "finished"};
    text += StrCat(Roster::NameOf(member.info), ": ", kStates[static_cast<int>(member.info.state)],
                   ", heard ", ToSeconds(now - member.last_heard), " s ago\n");
  }
  text += barriers_.Describe();
  for (const auto& [id, relay] : relays_) {
    text += StrCat(wire::BodyName(relay.body), " waits for ", MissingAcks(relay.acked), "\n");
  }
  return text;
}

}  // namespace sluice::scheduler
