// Shard: takes each message of a worker through the steps that it needs. Runs on the shard's loop.
//
// A push, a store or a pull of rows is checked as a whole against the keys before its first part counts; a
// pull part by part. A message that fails is answered with ErrorReply and counted as rejected. Messages of
// other senders than member workers are dropped. OnMessage leaves the updates of pushes in the queue and
// their answers with the responder while more messages may join them; every other message flushes both before
// and after it.
#include "server/shard.h"

#include <cmath>
#include <span>
#include <utility>

#include "base/strings.h"
#include "server/receive/set_values.h"
#include "server/receive/validate.h"
#include "server/reply/wait_conditions.h"

namespace sluice::server {
namespace {

constexpr size_t kMostIds = 32768;  // ids in one answer to GetRowIds

}  // namespace

Shard::Shard(ShardOptions options)
    : options_(std::move(options)),
      keys_(options_.updater, options_.thread, options_.memory),
      update_queue_(options_.helpers),
      aggregator_(keys_, workers_, options_.deduplicate),
      round_closer_(keys_, workers_, aggregator_, update_queue_, options_.cache_bytes),
      reply_sender_(options_.job, options_.incarnation),
      status_updates_(keys_, workers_, reply_sender_, counters_),
      responder_(keys_, update_queue_, reply_sender_, status_updates_, counters_, options_.memory) {}

void Shard::SetMembership(uint32_t rank, uint64_t epoch, const std::vector<wire::NodeInfo>& roster,
                          transport::Network& network) {
  reply_sender_.SetServer(rank, epoch);
  keys_.SetShard(rank * options_.shards_per_server + options_.thread);
  workers_.Set(roster);
  for (ShardKey* key : keys_.all()) {
    if (!key->async()) {
      for (ShardPart& part : key->parts) CloseRounds(*key, part);
    }
    FailUnsatisfiable(*key, network);
  }
  responder_.Flush(network);
}

void Shard::OnMessage(Time now, transport::PeerId from, wire::Message message, transport::Network& network) {
  if (std::holds_alternative<wire::Heartbeat>(message.body)) return;  // only authenticates a new connection
  if (!workers_.IsMember(message.sender)) {
    ++counters_[Counter::kUnknownSenders];
    if (uint64_t suppressed = 0; limiter_.Allow(now, &suppressed)) {
      LOG(WARNING) << WrapLogged(StrCat("dropped ", wire::Describe(message),
                                        ": its sender is no living worker of the job",
                                        SuppressedText(suppressed)));
    }
    return;
  }
  counters_[Counter::kBytesCopied] += CopyLeasedFrames(keys_, &message);
  if (!std::holds_alternative<wire::Push>(message.body)) responder_.Flush(network);
  Dispatch(now, {message.sender.rank, from, message.id}, message, network);
  update_queue_.MayWait() ? update_queue_.StartHelpers() : responder_.Flush(network);
}

void Shard::OnRoom(Time, transport::PeerId peer, transport::Network& network) {
  responder_.OnRoom(peer);
  responder_.Flush(network);
}

void Shard::OnTimer(Time now, transport::Network& network) {
  aggregator_.ReturnLeases(now);
  status_updates_.SendDue(now, network);
}

void Shard::Dispatch(Time now, const Requester& from, wire::Message& message, transport::Network& network) {
  if (std::holds_alternative<wire::Push>(message.body)) return OnPush(now, from, message, network);
  if (std::holds_alternative<wire::Pull>(message.body)) return OnPull(now, from, message, network);
  if (std::holds_alternative<wire::PullRows>(message.body)) return OnPullRows(now, from, message, network);
  if (std::holds_alternative<wire::GetRowIds>(message.body)) return OnGetRowIds(from, message, network);
  if (std::holds_alternative<wire::Store>(message.body)) return OnStore(from, message, network);
  if (std::holds_alternative<wire::GetStats>(message.body)) return OnGetStats(from, network);
  reply_sender_.SendError(
      from.peer, from.request_id,
      Fail(ErrorCode::kInvalidArgument, "a server shard does not take ", wire::BodyName(message.body)),
      network);
}

void Shard::OnPush(Time now, const Requester& from, wire::Message& message, transport::Network& network) {
  const auto& push = std::get<wire::Push>(message.body);
  for (size_t i = 0; i < push.parts.size(); ++i) {
    ShardKey* key = nullptr;
    ShardPart* part = nullptr;
    if (Status status = ValidatePush(keys_, push, i, message.payload[i].bytes(), &key, &part); !status)
      return Reject(from, status.failure(), network);
  }
  const size_t share = ReplyBatcher::ShareOf(wire::PayloadBytes(message));
  const float scale = std::ldexp(1.0f, static_cast<int>(push.exponent));
  bool all_answered = true;  // every part was answered with its value at once, which implies the Ack
  for (size_t i = 0; i < push.parts.size(); ++i) {
    const wire::PushPart& pushed = push.parts[i];
    ShardKey* key = keys_.Find(pushed.ref.key);
    ShardPart* part = key->Find(pushed.ref.part);
    Frame& frame = message.payload[i];
    counters_[Counter::kBytesIn] += frame.size();
    const auto admission =
        Admit(from.rank, *key, *part, pushed.round,
              {std::move(frame), push.samples, push.divisor, push.compression, now, scale});
    if (!admission) return Reject(from, admission.failure(), network);
    if (key->awaits_set) FailUnsatisfiable(*key, network);
    ++counters_[admission.value() == Admission::kNew ? Counter::kPushes : Counter::kRepeats];
    if (!pushed.want_value) {
      all_answered = false;
      continue;
    }
    const PendingRequest request{.rank = from.rank,
                                 .min_version = pushed.round,
                                 .peer = from.peer,
                                 .request_id = from.request_id,
                                 .as = push.values,
                                 .share = share};
    if (!responder_.AnswerOrWait(now, *key, *part, request)) all_answered = false;
  }
  if (!all_answered) reply_sender_.Send(from.peer, from.request_id, wire::Ack{}, {}, network);
}

Result<Admission> Shard::Admit(uint32_t rank, ShardKey& key, ShardPart& part, uint64_t round,
                               Contribution&& contribution) {
  if (key.async()) {
    ShardKey::WorkerPushes& pushes = key.pushes[rank];
    auto admission = aggregator_.AdmitAsync(pushes, key, part, round, std::move(contribution));
    if (!admission || admission.value() == Admission::kRepeat) return admission;
    if (const size_t applied = round_closer_.ApplyStaged(key, pushes); applied > 0) {
      counters_[Counter::kRoundsClosed] += applied;
      for (ShardPart& each : key.parts) responder_.AnswerReady(key, each);
    }
    return admission;
  }
  if (part.update_waits)
    update_queue_.Run();  // the part's last update uses memory that the next round reuses
  auto admission = aggregator_.AdmitSync(rank, key, part, round, std::move(contribution));
  if (admission && admission.value() == Admission::kNew) CloseRounds(key, part);
  return admission;
}

void Shard::CloseRounds(ShardKey& key, ShardPart& part) {
  round_closer_.CloseRounds(key, part, [&](ShardPart& closed) {
    ++counters_[Counter::kRoundsClosed];
    responder_.AnswerReady(key, closed);
  });
}

void Shard::OnPull(Time now, const Requester& from, const wire::Message& message,
                   transport::Network& network) {
  const auto& pull = std::get<wire::Pull>(message.body);
  for (const wire::PullPart& wanted : pull.parts) {
    ShardKey* key = nullptr;
    ShardPart* part = nullptr;
    if (Status status = ValidatePull(keys_, pull.want, pull.values, wanted, &key, &part); !status)
      return Reject(from, status.failure(), network);
    const bool awaits_set = pull.want == wire::Pull::Want::kSet;
    ++counters_[Counter::kPulls];
    const PendingRequest request{.rank = from.rank,
                                 .slot = wanted.slot,
                                 .min_version = wanted.min_version,
                                 .want_data = pull.want == wire::Pull::Want::kValue,
                                 .awaits_set = awaits_set,
                                 .peer = from.peer,
                                 .request_id = from.request_id,
                                 .as = pull.values};
    if (responder_.AnswerOrWait(now, *key, *part, request)) continue;
    key->awaits_set |= awaits_set;
    if (awaits_set || workers_.worker_0_left()) FailUnsatisfiable(*key, network);
  }
}

void Shard::OnPullRows(Time now, const Requester& from, const wire::Message& message,
                       transport::Network& network) {
  const auto& pull = std::get<wire::PullRows>(message.body);
  ShardKey* key = nullptr;
  ShardPart* part = nullptr;
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    if (Status status = ValidatePullRows(keys_, from.rank, from.request_id, pull.parts[i],
                                         message.payload[i].bytes(), &key, &part);
        !status)
      return Reject(from, status.failure(), network);
  }
  for (size_t i = 0; i < pull.parts.size(); ++i) {
    part = keys_.FindPart(pull.parts[i].ref, &key).value();
    ++counters_[Counter::kPulls];
    PendingRequest request{.rank = from.rank,
                           .slot = pull.parts[i].slot,
                           .min_version = pull.parts[i].min_version,
                           .peer = from.peer,
                           .request_id = from.request_id,
                           .ids = message.payload[i]};
    responder_.AnswerOrWait(now, *key, *part, std::move(request));
  }
}

void Shard::OnGetRowIds(const Requester& from, const wire::Message& message, transport::Network& network) {
  const auto& wanted = std::get<wire::GetRowIds>(message.body);
  const Result<ShardPart*> part = ValidateGetRowIds(keys_, wanted);
  if (!part) return Reject(from, part.failure(), network);
  const std::span<const int64_t> ids = part.value()->rows->ids();
  const std::span<const int64_t> rest = ids.subspan(std::min<size_t>(wanted.first, ids.size()));
  wire::RowIds answer{.total = ids.size(), .ids = {}};
  for (const int64_t id : rest.first(std::min(rest.size(), kMostIds)))
    answer.ids.push_back(static_cast<uint64_t>(id));
  reply_sender_.Send(from.peer, from.request_id, std::move(answer), {}, network);
}

void Shard::OnStore(const Requester& from, wire::Message& message, transport::Network& network) {
  const auto& store = std::get<wire::Store>(message.body);
  ShardKey* key = nullptr;
  ShardPart* part = nullptr;
  for (size_t i = 0; i < store.parts.size(); ++i) {
    if (Status status = ValidateStore(keys_, from.rank, store, i, message.payload[i].bytes(), &key, &part);
        !status)
      return Reject(from, status.failure(), network);
  }
  const ShardPart::StoreRequest by{message.sender.incarnation, from.request_id};
  for (size_t i = 0; i < store.parts.size(); ++i) {
    const wire::StorePart& stored = store.parts[i];
    const Frame& value = message.payload[i];
    key = keys_.Find(stored.ref.key);
    part = key->Find(stored.ref.part);
    switch (store.purpose) {
      case wire::Store::Purpose::kInit:
        if (!keys_.InitialiseWeight(*key, *part, value)) break;
        // An async key can be pulled once all its parts here are initialised, so this part may have been what
        // requests for the other parts waited for.
        for (ShardPart& each : key->parts) responder_.AnswerReady(*key, each);
        break;
      case wire::Store::Purpose::kState:
        StoreState(*part, stored, value, by);
        break;
      case wire::Store::Purpose::kRows:
        StoreRows(*part, value, by);
        break;
      case wire::Store::Purpose::kWeight:
        if (SetWeight(*key, *part, stored.version, value, by)) responder_.AnswerReady(*key, *part);
        break;
    }
  }
  reply_sender_.Send(from.peer, from.request_id, wire::Ack{}, {}, network);
}

void Shard::OnGetStats(const Requester& from, transport::Network& network) {
  wire::Stats stats{counters()};
  if (options_.process_counters) {
    for (const auto& [name, count] : options_.process_counters()) stats.counters[name] += count;
  }
  reply_sender_.Send(from.peer, from.request_id, std::move(stats), {}, network);
}

void Shard::FailUnsatisfiable(ShardKey& key, transport::Network& network) {
  for (const UnsatisfiableRequest& each : TakeUnsatisfiable(workers_, key)) {
    ++counters_[Counter::kRejected];
    reply_sender_.SendError(each.peer, each.request_id, Fail(ErrorCode::kFailedPrecondition, each.why),
                            network);
  }
}

void Shard::Reject(const Requester& from, const Failure& failure, transport::Network& network) {
  ++counters_[Counter::kRejected];
  reply_sender_.SendError(from.peer, from.request_id, failure, network);
}

std::string Shard::DumpState(Time) const {
  std::string text = StrCat("shard ", keys_.shard(), ": epoch ", reply_sender_.epoch(), ", ",
                            workers_.live().size(), " live workers\n");
  for (const auto& [name, value] : counters()) text += StrCat("  ", name, " ", value, "\n");
  constexpr size_t kShown = 100;
  size_t shown = 0;
  for (const ShardKey* key : keys_.all()) {
    for (const ShardPart& part : key->parts) {
      if (part.rounds.empty() && part.pending.empty()) continue;
      if (++shown > kShown) return text + "  ...\n";
      text += StrCat("  key ", wire::ToString(key->entry.spec), " part ", part.ref.part, " version ",
                     part.version);
      text += StrCat(", round ", part.version + 1, " waits for ", MissingText(keys_, workers_, *key, part));
      for (const PendingRequest& request : part.pending)
        text += request.deferred
                    ? StrCat("; an answer to worker ", request.rank, " waits for room on its connection")
                    : StrCat("; worker ", request.rank, " waits for round ", request.min_version);
      text += "\n";
    }
  }
  return text;
}

}  // namespace sluice::server
