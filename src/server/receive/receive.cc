// Shard's receive step: messages from workers. Runs on the shard's loop.
//
// A message is checked as a whole against the key table before it changes anything; one that fails is
// answered with ErrorReply and counted as rejected. Messages of other senders than member workers are
// dropped. OnMessage leaves the updates of pushes in the queue and their answers in the batcher while more
// messages may join them; every other message flushes both.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "kvstore/rows/row_frame.h"
#include "server/shard.h"

namespace sluice::server {
namespace {

std::string InvalidRowPushReason(const wire::Push& push, size_t i, Bytes bytes, const Key& key) {
  if (push.compression != Compression::kNone) return StrCat("rows do not travel as ", Name(push.compression));
  if (push.parts[i].want_value) return "a push of rows is answered without a value";
  const size_t row_bytes = static_cast<size_t>(key.places->row_elements) * SizeOf(key.entry.spec.dtype);
  return kvstore::InvalidRowsReason(bytes, row_bytes, *key.places, push.parts[i].ref.part);
}

}  // namespace

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
    const uint32_t key = push->parts[i].ref.key;
    return push->compression == Compression::kNone && key < keys_.size() && keys_[key] != nullptr &&
           !keys_[key]->places;
  };
  const auto* store = std::get_if<wire::Store>(&message.body);
  const auto is_stored = [&](size_t i) {
    const uint32_t key = store->parts[i].ref.key;
    return key < keys_.size() && keys_[key] != nullptr && !keys_[key]->places;
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

Result<Part*> Shard::FindPart(const wire::PartRef& ref, Key** key) {
  if (ref.key >= keys_.size() || keys_[ref.key] == nullptr) {
    return Fail(ErrorCode::kNotFound, "shard ", index(), " has no key with id ", ref.key);
  }
  *key = keys_[ref.key].get();
  Part* part = (*key)->Find(ref.part);
  if (part == nullptr) {
    return Fail(ErrorCode::kNotFound, "part ", ref.part, " of key ", wire::ToString((*key)->entry.spec),
                " is not on shard ", index());
  }
  return part;
}

Status Shard::ValidatePush(const wire::Push& push, size_t i, Bytes bytes, Key** key, Part** part) {
  const Result<Part*> found = FindPart(push.parts[i].ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const wire::KeySpec& spec = (*key)->entry.spec;
  const auto refuse = [&](ErrorCode code, const auto&... why) {
    return Fail(code, "push of key ", wire::ToString(spec), ", part ", push.parts[i].ref.part, ": ", why...);
  };
  if (!(*part)->initialised)
    return refuse(ErrorCode::kFailedPrecondition, "the key has not been initialised");
  const std::string why = (*key)->places
                              ? InvalidRowPushReason(push, i, bytes, **key)
                              : compression::InvalidReason({bytes.data(), bytes.size(), push.compression},
                                                           spec.dtype, (*part)->length);
  if (!why.empty()) return refuse(ErrorCode::kInvalidArgument, why);
  if (!compression::CanEncodeWeights(push.values, spec.dtype)) {
    return refuse(ErrorCode::kInvalidArgument, Name(spec.dtype), " weights do not travel as ",
                  Name(push.values));
  }
  if (push.parts[i].round == 0) return refuse(ErrorCode::kInvalidArgument, "rounds count from 1");
  if (!(push.divisor > 0) || std::isinf(push.divisor))
    return refuse(ErrorCode::kInvalidArgument, "the divisor is ", push.divisor);
  if (!IsFloating(spec.dtype) && push.divisor != 1) {
    return refuse(ErrorCode::kInvalidArgument, "a ", Name(spec.dtype), " key cannot be divided by ",
                  push.divisor);
  }
  const bool scales = spec.dtype == DType::kFloat16 && push.compression == Compression::kNone;
  if (push.exponent > (scales ? wire::kMostExponent : 0)) {
    return refuse(ErrorCode::kInvalidArgument, "the exponent of a ", Name(spec.dtype), " gradient as ",
                  Name(push.compression), " is ", push.exponent);
  }
  const UpdateRule& rule = RuleFor(**key, push.parts[i].round);
  if ((*key)->async() && !rule.optimizer && !rule.updater) {
    return refuse(
        ErrorCode::kFailedPrecondition,
        "an async store without optimiser would assign whatever comes last; call SetOptimizer first");
  }
  return Status::Ok();
}

void Shard::OnPush(Time now, const Sender& sender, wire::Message& message, transport::Network& network) {
  const auto& push = std::get<wire::Push>(message.body);
  for (size_t i = 0; i < push.parts.size(); ++i) {
    Key* key = nullptr;
    Part* part = nullptr;
    if (Status status = ValidatePush(push, i, message.payload[i].bytes(), &key, &part); !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
  }
  const size_t share = ReplyBatcher::ShareOf(wire::PayloadBytes(message));
  const float scale = std::ldexp(1.0f, static_cast<int>(push.exponent));
  bool all_answered = true;  // every part was answered with its value at once, which implies the Ack
  for (size_t i = 0; i < push.parts.size(); ++i) {
    const wire::PushPart& pushed = push.parts[i];
    Key* key = keys_[pushed.ref.key].get();
    Part* part = key->Find(pushed.ref.part);
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
    const Waiter waiter{.rank = sender.rank,
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
    Key* key = nullptr;
    const Result<Part*> part = FindPart(wanted.ref, &key);
    if (!part) {
      ++counters_[Counter::kRejected];
      return SendError(sender, part.failure(), network);
    }
    if (key->places && pull.want != wire::Pull::Want::kVersion) {
      ++counters_[Counter::kRejected];
      return SendError(sender,
                       Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key->entry.spec),
                            " is row-sparse: its rows are pulled, never all of it"),
                       network);
    }
    // States exist from the first update on; before it they are created here, as zeros.
    if (wanted.slot > 0)
      PrepareStates(RuleFor(*key, part.value()->version + 1), key->entry.spec, *part.value());
    // kVersion for slot 1 asks for the number of updates, which a part has even without states. It is asked
    // for with a slot of its own because waiters are kept by slot.
    const size_t least = pull.want == wire::Pull::Want::kVersion ? 1 : 0;
    const bool awaits_set = pull.want == wire::Pull::Want::kSet;
    if (wanted.slot > std::max(part.value()->num_states(), least)) {
      ++counters_[Counter::kRejected];
      return SendError(
          sender,
          Fail(ErrorCode::kNotFound, "key ", wire::ToString(key->entry.spec), " has ",
               part.value()->num_states(), " optimiser states, state ", wanted.slot, " was asked for"),
          network);
    }
    if (!compression::CanEncodeWeights(pull.values, key->entry.spec.dtype)) {
      ++counters_[Counter::kRejected];
      return SendError(
          sender,
          Fail(ErrorCode::kInvalidArgument, "pull of key ", wire::ToString(key->entry.spec), ": ",
               Name(key->entry.spec.dtype), " weights do not travel as ", Name(pull.values)),
          network);
    }
    ++counters_[Counter::kPulls];
    const Waiter waiter{.rank = sender.rank,
                        .slot = wanted.slot,
                        .min_version = wanted.min_version,
                        .want_data = pull.want == wire::Pull::Want::kValue,
                        .awaits_set = awaits_set,
                        .peer = sender.peer,
                        .request_id = sender.request_id,
                        .as = pull.values};
    if (AnswerOrWait(now, *key, *part.value(), waiter)) continue;
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

Status Shard::ValidateStore(const Sender& sender, const wire::Store& store, size_t i, Bytes bytes, Key** key,
                            Part** part) {
  const wire::StorePart& stored = store.parts[i];
  const Result<Part*> found = FindPart(stored.ref, key);
  if (!found) return found.failure();
  *part = found.value();
  const wire::KeySpec& spec = (*key)->entry.spec;
  if ((*key)->places) return ValidateStoreRows(store, i, bytes, **key, **part);
  if (store.purpose == wire::Store::Purpose::kRows) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec),
                " is not row-sparse, but rows came");
  }
  const bool sets = store.purpose == wire::Store::Purpose::kWeight;
  const bool init = store.purpose == wire::Store::Purpose::kInit;
  const size_t expected = init || sets       ? (*part)->length * SizeOf(spec.dtype)
                          : stored.slot == 0 ? 0
                                             : SlotBytes(spec.dtype, (*part)->length);
  if (bytes.size() != expected) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec), ", part ", stored.ref.part, ": ",
                bytes.size(), " bytes came to be stored, the part has ", expected);
  }
  if (sets) return ValidateSet(sender, **key, **part, stored.version);
  return init ? Status::Ok() : ValidateState(**key, **part, stored);
}

// Worker 0 sets the weight of the version that its last push has made, so that version must be available.
Status Shard::ValidateSet(const Sender& sender, const Key& key, const Part& part, uint64_t version) const {
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kFailedPrecondition, "set of key ", wire::ToString(key.entry.spec), ": ", why...);
  };
  if (sender.rank != 0) return refuse("worker ", sender.rank, " wants to, but worker 0's weights count");
  if (!part.initialised) return refuse("the key has not been initialised");
  if (const uint64_t there = VersionFor(key, part, sender.rank); version > there)
    return refuse("version ", version, " is not there, the last one is ", there);
  return Status::Ok();
}

Status Shard::ValidateState(const Key& key, Part& part, const wire::StorePart& state) const {
  const UpdateRule& rule = RuleFor(key, part.version + 1);
  PrepareStates(rule, key.entry.spec, part);
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(key.entry.spec), ": ", why...);
  };
  if (!rule.optimizer || state.slot > part.num_states()) {
    return refuse("optimiser state ", state.slot, " was to be loaded, but its optimiser has ",
                  part.num_states(), "; call SetOptimizer first");
  }
  if (state.version > kvstore::kMaxUpdates) {
    return refuse("the state's number of updates is ", state.version, "; it must be at most ",
                  kvstore::kMaxUpdates);
  }
  return Status::Ok();
}

void Shard::StoreValue(Key& key, Part& part, const Frame& value) {
  if (part.initialised) return;  // a repeat, or a restarted worker
  part.weight.emplace(value.size(), options_.memory);
  weight_bytes_ += value.size();
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.initialised = true;
  ++key.initialised_parts;
  // An async key can be pulled once all its parts here are initialised, so this part may have been what
  // waiters of the other parts waited for.
  for (Part& each : key.parts) AnswerWaiters(key, each);
}

// A set for a version that is no longer the current one comes too late: a later round has
// started from the weight as it was.
void Shard::SetWeight(Key& key, Part& part, uint64_t version, const Frame& value, Part::Request by) {
  if (version < VersionFor(key, part, 0) || !part.AcceptIfNewer(Part::kWeight, by)) return;
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.set_version = version;
  ++part.sets;
  AnswerWaiters(key, part);
}

void Shard::StoreState(Part& part, const wire::StorePart& state, const Frame& frame, Part::Request by) {
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
  Key* key = nullptr;
  Part* part = nullptr;
  for (size_t i = 0; i < store.parts.size(); ++i) {
    if (Status status = ValidateStore(sender, store, i, message.payload[i].bytes(), &key, &part); !status) {
      ++counters_[Counter::kRejected];
      return SendError(sender, status.failure(), network);
    }
  }
  for (size_t i = 0; i < store.parts.size(); ++i) {
    key = keys_[store.parts[i].ref.key].get();
    part = key->Find(store.parts[i].ref.part);
    const Part::Request by{message.sender.incarnation, sender.request_id};
    switch (store.purpose) {
      case wire::Store::Purpose::kInit:
        StoreValue(*key, *part, message.payload[i]);
        break;
      case wire::Store::Purpose::kState:
        StoreState(*part, store.parts[i], message.payload[i], by);
        break;
      case wire::Store::Purpose::kRows:
        if (part->AcceptIfNewer(Part::kWeight, by)) StoreRows(*part, 0, message.payload[i]);
        break;
      case wire::Store::Purpose::kWeight:
        SetWeight(*key, *part, store.parts[i].version, message.payload[i], by);
        break;
    }
  }
  Send(sender.peer, sender.request_id, wire::Ack{}, {}, network);
}

}  // namespace sluice::server
