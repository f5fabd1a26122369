// Shard's receive step: messages from workers. Runs on the shard's loop.
//
// A message is checked as a whole against the key table before it changes anything; one that fails is
// answered with ErrorReply and counted as rejected. Messages of other senders than member workers are
// dropped. OnMessage leaves the updates of pushes in the queue and their answers in the batcher while more
// messages may join them; every other message flushes both.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "server/receive/validate.h"
#include "server/shard.h"

namespace sluice::server {
void Shard::OnMessage(Time now, transport::PeerId from, wire::Message message, transport::Network& network) {
  if (std::holds_alternative<wire::Heartbeat>(message.body)) return;  // only authenticates a new connection
  if (!IsMember(message.sender)) {
    ++counters_[Counter::kUnknownSenders];
    if (uint64_t suppressed = 0; limiter_.Allow(now, &suppressed)) {
      LOG(WARNING) << WrapLogged(StrCat("dropped ", wire::Describe(message),
                                        ": its sender is no living worker of the job",
                                        SuppressedText(suppressed)));
    }
    return;
  }
  CopyLeasedFrames(message);
  if (!std::holds_alternative<wire::Push>(message.body)) Flush(network);
  Handle(now, from, message, network);
  update_queue_.MayWait() ? update_queue_.StartHelpers() : Flush(network);
}

// A worker may change leased memory after the shard has checked it, so leased frames are copied first. Two
// kinds stay in place, since no value in them is checked: uncompressed gradients of dense keys, which are
// only added up, and values for dense keys, which are copied when they are stored.
void Shard::CopyLeasedFrames(wire::Message& message) {
  const auto* push = std::get_if<wire::Push>(&message.body);
  const auto adds_up = [&](size_t i) {
    const ShardKey* key = keys_.Find(push->parts[i].ref.key);
    return push->compression == Compression::kNone && key != nullptr && !key->places;
  };
  const auto* store = std::get_if<wire::Store>(&message.body);
  const auto is_stored = [&](size_t i) {
    const ShardKey* key = keys_.Find(store->parts[i].ref.key);
    return key != nullptr && !key->places;
  };
  for (size_t i = 0; i < message.payload.size(); ++i) {
    Frame& frame = message.payload[i];
    if (!frame.leased() || (push != nullptr && adds_up(i)) || (store != nullptr && is_stored(i))) continue;
    frame = frame.ToOwned();
    counters_[Counter::kBytesCopied] += frame.size();
  }
}

void Shard::Handle(Time now, transport::PeerId from, wire::Message& message, transport::Network& network) {
  const Sender sender{message.sender.rank, from, message.id};
  if (std::holds_alternative<wire::Push>(message.body)) return OnPush(now, sender, message, network);
  if (std::holds_alternative<wire::Pull>(message.body)) return OnPull(now, sender, message, network);
  if (std::holds_alternative<wire::PullRows>(message.body)) return OnPullRows(now, sender, message, network);
  if (std::holds_alternative<wire::GetRowIds>(message.body)) return OnGetRowIds(sender, message, network);
  if (std::holds_alternative<wire::Store>(message.body)) return OnStore(sender, message, network);
  if (std::holds_alternative<wire::GetStats>(message.body)) return OnGetStats(sender, network);
  SendError(sender,
            Fail(ErrorCode::kInvalidArgument, "a server shard does not take ", wire::BodyName(message.body)),
            network);
}

bool Shard::IsMember(const wire::Sender& sender) const {
  if (sender.role != wire::Role::kWorker) return false;
  const auto it = incarnations_.find(sender.rank);
  return it != incarnations_.end() && it->second == sender.incarnation;
}

void Shard::OnPush(Time now, const Sender& sender, wire::Message& message, transport::Network& network) {
  const auto& push = std::get<wire::Push>(message.body);
  for (size_t i = 0; i < push.parts.size(); ++i) {
    ShardKey* key = nullptr;
    ShardPart* part = nullptr;
    if (Status status = ValidatePush(keys_, push, i, message.payload[i].bytes(), &key, &part); !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
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
    Contribution contribution{std::move(frame), push.samples, push.divisor, push.compression, now, scale};
    NoteLease(contribution);
    const auto kept = key->async() ? AdmitAsync(sender, *key, *part, pushed.round, std::move(contribution))
                                   : AdmitSync(sender, *key, *part, pushed.round, std::move(contribution));
    if (!kept) {
      ++counters_[Counter::kRejected];
      return SendError(sender, kept.failure(), network);
    }
    if (key->awaits_set) FailUnsatisfiable(*key, network);
    ++counters_[kept.value() == Admission::kNew ? Counter::kPushes : Counter::kRepeats];
    if (!pushed.want_value) {
      all_answered = false;
      continue;
    }
    const PendingRequest waiter{.rank = sender.rank,
                                .min_version = pushed.round,
                                .peer = sender.peer,
                                .request_id = sender.request_id,
                                .as = push.values,
                                .share = share};
    if (!AnswerOrWait(now, *key, *part, waiter)) all_answered = false;
  }
  if (!all_answered) Send(sender.peer, sender.request_id, wire::Ack{}, {}, network);
}

void Shard::OnPull(Time now, const Sender& sender, const wire::Message& message,
                   transport::Network& network) {
  const auto& pull = std::get<wire::Pull>(message.body);
  for (const wire::PullPart& wanted : pull.parts) {
    ShardKey* key = nullptr;
    ShardPart* part = nullptr;
    if (Status status = ValidatePull(keys_, pull.want, pull.values, wanted, &key, &part); !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
    const bool awaits_set = pull.want == wire::Pull::Want::kSet;
    ++counters_[Counter::kPulls];
    const PendingRequest waiter{.rank = sender.rank,
                                .slot = wanted.slot,
                                .min_version = wanted.min_version,
                                .want_data = pull.want == wire::Pull::Want::kValue,
                                .awaits_set = awaits_set,
                                .peer = sender.peer,
                                .request_id = sender.request_id,
                                .as = pull.values};
    if (AnswerOrWait(now, *key, *part, waiter)) continue;
    key->awaits_set |= awaits_set;
    if (awaits_set || worker_0_left_) FailUnsatisfiable(*key, network);
  }
}

void Shard::OnGetStats(const Sender& sender, transport::Network& network) {
  wire::Stats stats{counters()};
  if (options_.process_counters) {
    for (const auto& [name, count] : options_.process_counters()) stats.counters[name] += count;
  }
  Send(sender.peer, sender.request_id, std::move(stats), {}, network);
}

void Shard::StoreValue(ShardKey& key, ShardPart& part, const Frame& value) {
  if (part.initialised) return;  // a repeat, or a restarted worker
  part.weight.emplace(value.size(), options_.memory);
  weight_bytes_ += value.size();
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.initialised = true;
  ++key.initialised_parts;
  // An async key can be pulled once all its parts here are initialised, so this part may have been what
  // waiters of the other parts waited for.
  for (ShardPart& each : key.parts) AnswerWaiters(key, each);
}

// A set for a version that is no longer the current one comes too late: a later round has
// started from the weight as it was.
void Shard::SetWeight(ShardKey& key, ShardPart& part, uint64_t version, const Frame& value,
                      ShardPart::StoreRequest by) {
  if (version < key.VersionFor(part, 0) || !part.AcceptIfNewer(ShardPart::kWeight, by)) return;
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.set_version = version;
  ++part.sets;
  AnswerWaiters(key, part);
}

void Shard::StoreState(ShardPart& part, const wire::StorePart& state, const Frame& frame,
                       ShardPart::StoreRequest by) {
  if (!part.AcceptIfNewer(state.slot, by)) return;
  if (state.slot > 0 && part.rows != nullptr) {
    StoreRows(part, state.slot, frame);
  } else if (state.slot > 0) {
    std::memcpy(part.states.arrays[state.slot - 1]->data(), frame.data(), frame.size());
  }
  part.num_updates = static_cast<int64_t>(state.version);
}

void Shard::OnStore(const Sender& sender, wire::Message& message, transport::Network& network) {
  const auto& store = std::get<wire::Store>(message.body);
  ShardKey* key = nullptr;
  ShardPart* part = nullptr;
  for (size_t i = 0; i < store.parts.size(); ++i) {
    if (Status status = ValidateStore(keys_, sender.rank, store, i, message.payload[i].bytes(), &key, &part);
        !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
  }
  for (size_t i = 0; i < store.parts.size(); ++i) {
    key = keys_.Find(store.parts[i].ref.key);
    part = key->Find(store.parts[i].ref.part);
    const ShardPart::StoreRequest by{message.sender.incarnation, sender.request_id};
    switch (store.purpose) {
      case wire::Store::Purpose::kInit:
        StoreValue(*key, *part, message.payload[i]);
        break;
      case wire::Store::Purpose::kState:
        StoreState(*part, store.parts[i], message.payload[i], by);
        break;
      case wire::Store::Purpose::kRows:
        if (part->AcceptIfNewer(ShardPart::kWeight, by)) StoreRows(*part, 0, message.payload[i]);
        break;
      case wire::Store::Purpose::kWeight:
        SetWeight(*key, *part, store.parts[i].version, message.payload[i], by);
        break;
    }
  }
  Send(sender.peer, sender.request_id, wire::Ack{}, {}, network);
}

}  // namespace sluice::server
