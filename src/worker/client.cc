// Client: membership, connections to the shards, dispatch of messages, timers, and what ends operations as a
// whole (deadlines, failure of the job).
//
// The client's loop calls everything here. A method that is called from outside runs the completions that it
// has queued before it returns (RunCompletions), after the client's state is consistent again: a completion
// may call the client. After FailAll no operation is open, and every later call fails with the same error.
#include "worker/client.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace sluice::worker {
namespace {

// What an operation waits for of which no part has been sent.
constexpr const char* kEarlierOperations = "earlier operations";

// Whether messages about the operation name its round.
bool HasRound(const Operation& op) {
  return op.name == nullptr || op.keys[0].round > 0;
}

}  // namespace

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      tracer_(options_.tracer ? *options_.tracer : no_tracer_),
      membership_(options_.membership),
      operations_(MemoryOf<Operation>(records_)) {}

// A callback may own its operation (PullUpdates), a cycle that would keep open operations alive.
Client::~Client() {
  for (auto& [number, op] : operations_) op->done = nullptr;
}

void Client::OnEnd(Time now, const std::string& why, NetworkRef network) {
  if (!failure_) FailAll(Fail(ErrorCode::kCancelled, "this worker is no longer in the job: ", why));
  RunCompletions(now, network);
}

void Client::OnStart(Time now, NetworkRef network) {
  membership_.OnStart(now, network);
}

void Client::WhenJoined(worker::Done done) {
  if (failure_) return done(*failure_);
  if (membership_.state() == membership::State::kMember) return done(Status::Ok());
  when_joined_.push_back(std::move(done));
}

void Client::ConnectShards(NetworkRef network) {
  for (const wire::NodeInfo& node : membership_.roster()) {
    if (node.role != wire::Role::kServer) continue;
    for (const std::string& address : node.shard_addresses) {
      const uint64_t most = options_.max_inflight_bytes;
      auto shard = std::make_unique<Shard>(
          Shard{network.Connect(address), node.rank, OutstandingRequests(options_.resend_timeout, records_),
                Lane{SendQueue(records_), CongestionWindow(CongestionWindow::kLeast, most)},
                Lane{SendQueue(records_), CongestionWindow(most, most)}});
      shard_of_[shard->peer] = static_cast<uint32_t>(shards_.size());
      VLOG(1) << "server " << node.rank << " has shard " << shards_.size() << " at " << address;
      // A connection counts as unauthenticated until its first message has arrived completely, so the first
      // one is small: see transport.md.
      network.Send(shard->peer, Envelope(wire::Heartbeat{}, 0));
      shards_.push_back(std::move(shard));
    }
  }
}

void Client::DisconnectShards(NetworkRef network) {
  for (const auto& shard : shards_) network.Disconnect(shard->peer);
}

void Client::AfterMembership(Time, NetworkRef network) {
  if (membership_.state() == membership::State::kMember && shards_.empty()) {
    ConnectShards(network);
    for (auto& done : std::exchange(when_joined_, {}))
      completions_.push_back([done](Time, NetworkRef) { done(Status::Ok()); });
  }
  if (membership_.state() == membership::State::kStopped && !failure_) {
    const wire::Stop& stop = *membership_.stop();
    const bool failed = stop.reason == wire::Stop::Reason::kFailed;
    if (failed && membership_.stopped_by_scheduler() && options_.on_job_failed)
      options_.on_job_failed(stop.message);
    FailAll(Failure{failed ? ErrorCode::kUnavailable : ErrorCode::kCancelled, stop.message});
    // A shard may be dead, and messages that are queued for it would delay the end of this process.
    if (failed) DisconnectShards(network);
  }
}

void Client::FailAll(const Failure& failure) {
  failure_ = failure;
  for (auto& done : std::exchange(when_joined_, {}))
    completions_.push_back([done, failure](Time, NetworkRef) { done(failure); });
  for (auto& [number, op] : operations_) FinishOperation(*op, failure);
  operations_.clear();
  controls_.FailAll(failure, &completions_);
  for (auto& flush : std::exchange(flushes_, {}))
    completions_.push_back([done = std::move(flush.done), failure](Time, NetworkRef) { done(failure); });
  for (auto& shard : shards_) {
    shard->pushes.Clear();
    shard->pulls.Clear();
    shard->requests.Clear();
  }
  for (const auto& key : keys_) {
    if (key == nullptr) continue;
    for (PartSequencer& sequencer : key->sequencers) sequencer = PartSequencer();
  }
}

void Client::OnMessage(Time now, transport::PeerId from, wire::Message message, NetworkRef network) {
  if (from == membership_.scheduler()) {
    if (membership_.OnMessage(now, from, message, network)) {
      AfterMembership(now, network);
    } else {
      controls_.OnAnswer(message, &completions_);
    }
    return RunCompletions(now, network);
  }
  const auto it = shard_of_.find(from);
  if (it == shard_of_.end() || message.sender.role != wire::Role::kServer) return;
  const uint32_t shard = it->second;
  if (std::holds_alternative<wire::Ack>(message.body)) {
    OnAck(now, shard, message.in_reply_to);
  } else if (std::holds_alternative<wire::Values>(message.body)) {
    OnValues(now, shard, message);
  } else if (std::holds_alternative<wire::Stats>(message.body) ||
             std::holds_alternative<wire::RowIds>(message.body)) {
    controls_.OnAnswer(message, &completions_);
  } else if (const auto* error = std::get_if<wire::ErrorReply>(&message.body)) {
    if (!controls_.OnAnswer(message, &completions_))
      OnShardError(now, shard, message.in_reply_to, Failure{error->code, error->message}, network);
  } else if (const auto* waiting = std::get_if<wire::StillWaiting>(&message.body)) {
    OnShardWaiting(shard, message.in_reply_to, *waiting);
  }
  FlushShard(now, shard, network);
  CheckFlushed(now);
  RunCompletions(now, network);
}

void Client::OnRefused(Time now, transport::PeerId peer, NetworkRef network) {
  membership_.OnRefused(peer);
  AfterMembership(now, network);
  RunCompletions(now, network);
}

std::string Client::WaitingFor(const Operation& op) const {
  if (!op.waiting_for.empty()) return op.waiting_for;
  std::set<uint32_t> servers;
  ForPartsOf(op, [&](const PartOp& part) {
    if (part.sent) servers.insert(shards_[part.shard]->server);
  });
  std::vector<std::string> names;
  for (const uint32_t server : servers) names.push_back(StrCat("server ", server));
  return names.empty() ? kEarlierOperations : StrCat(StrJoin(names), " to answer");
}

std::string Client::Describe(const Operation& op) const {
  constexpr size_t kNamed = 3;
  const size_t count = op.keys.size();
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, kNamed); ++i) {
    const KeyState* key = Find(op.keys[i].key);
    names.push_back(key == nullptr ? StrCat("number ", op.keys[i].key) : std::string(key->name.text()));
  }
  if (count > kNamed) names.push_back(StrCat(count - kNamed, " more"));
  const std::string what = StrCat(op.name != nullptr ? op.name : Name(op.kind),
                                  count > 1 ? " of keys " : " of key ", StrJoin(names));
  return HasRound(op) ? StrCat(what, ", round ", op.keys[0].round) : what;
}

void Client::Expire(Time now) {
  std::vector<std::shared_ptr<Operation>> expired;
  if (now >= earliest_deadline_) {
    earliest_deadline_ = Time::max();
    for (const auto& [number, op] : operations_) {
      if (now >= op->deadline)
        expired.push_back(op);
      else
        earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
    }
  }
  // Names what the earlier operations wait for: those that precede the
  // operation in the sequencers of its parts.
  const auto behind = [&](const Operation& op) {
    for (const PerKeyOp& key_op : op.keys) {
      const KeyState* key = Find(key_op.key);
      if (key == nullptr) continue;
      for (const PartSequencer& sequencer : key->sequencers) {
        for (const PartOpPtr& part : sequencer.ops()) {
          if (part->op.get() == &op) break;
          if (const std::string whom = WaitingFor(*part->op); whom != kEarlierOperations)
            return StrCat(kEarlierOperations, ", which wait for ", whom);
        }
      }
    }
    return std::string(kEarlierOperations);
  };
  std::vector<std::string> whom;  // collected before any of the operations ends
  for (const auto& op : expired) {
    whom.push_back(WaitingFor(*op));
    if (whom.back() == kEarlierOperations) whom.back() = behind(*op);
  }
  for (size_t i = 0; i < expired.size(); ++i) {
    const auto& op = expired[i];
    const Failure failure = Fail(ErrorCode::kDeadlineExceeded, Describe(*op), HasRound(*op) ? "," : "",
                                 " was not done by its deadline: waiting for ", whom[i],
                                 membership::LimitText(op->opened, op->deadline));
    if (op->kind == OpKind::kPushPull) DetachPush(op);
    FinishOperation(*op, failure);
  }
  if (!expired.empty()) std::erase_if(operations_, [](const auto& entry) { return entry.second->finished; });
  controls_.Expire(now, &completions_);
}

void Client::ReportWaits(Time now) {
  if (now < next_report_) return;
  next_report_ = Time::max();
  for (const auto& [number, op] : operations_) {
    const std::string whom = now < op->opened + membership::WaitReports::kFirst ? "" : WaitingFor(*op);
    if (whom ==
        kEarlierOperations) {  // the earlier operations are reported; look again when they may be done
      next_report_ = now + membership::WaitReports::kFirst;
      continue;
    }
    reports_.Add(now, whom, op->opened, op->deadline, [&] { return Describe(*op); });
  }
  controls_.AddTo(&reports_, now);
  for (const std::string& line : reports_.Take(now))
    options_.on_waiting ? options_.on_waiting(line) : static_cast<void>(LOG(INFO) << WrapLogged(line));
  next_report_ = std::min(next_report_, reports_.Next());
}

void Client::OnTimer(Time now, NetworkRef network) {
  if (!failure_) {
    membership_.OnTimer(now, network);
    AfterMembership(now, network);
  }
  Expire(now);
  ReportWaits(now);
  controls_.Repeat(now, membership_, network);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard)
    if (now >= shards_[shard]->requests.NextTimer()) Repeat(now, shard, network);
  FlushShards(now, network);
  CheckFlushed(now);
  RunCompletions(now, network);
}

Time Client::NextTimer() const {
  Time next = failure_ ? Time::max() : membership_.NextTimer();
  for (const auto& shard : shards_) next = std::min(next, shard->requests.NextTimer());
  next = std::min({next, earliest_deadline_, next_report_});
  for (const FlushCall& flush : flushes_) next = std::min(next, flush.deadline);
  return std::min(next, controls_.NextTimer());
}

void Client::RunCompletions(Time now, NetworkRef network) {
  while (!completions_.empty()) {
    auto running = std::exchange(completions_, std::move(spare_completions_));
    for (auto& completion : running) completion(now, network);
    running.clear();
    spare_completions_ = std::move(running);
  }
}

std::string Client::DumpState(Time now) const {
  std::string text = membership_.Describe(now);
  if (failure_) text += StrCat("failed: ", failure_->message, "\n");
  constexpr size_t kShown = 100;
  size_t shown = 0;
  for (const auto& [number, op] : operations_) {
    if (++shown > kShown) {
      text += "  ...\n";
      break;
    }
    text +=
        StrCat("  ", Describe(*op), ": ", op->parts_left, " parts left, waiting for ", WaitingFor(*op), "\n");
  }
  if (!flushes_.empty()) text += "  leaving: waits until the servers have what was pushed\n";
  text += controls_.Describe();
  for (size_t i = 0; i < shards_.size(); ++i) {
    text += StrCat("  shard ", i, ": ", shards_[i]->pushes.queue.size() + shards_[i]->pulls.queue.size(),
                   " parts queued, ", shards_[i]->requests.size(), " requests unanswered, ",
                   HumanBytes(shards_[i]->pushes.in_flight + shards_[i]->pulls.in_flight), " in flight\n");
  }
  return text;
}

}  // namespace sluice::worker
