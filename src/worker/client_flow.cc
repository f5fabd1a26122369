// Client: turns operations into messages. An operation is checked, cut into parts, and appended to the
// sequencers of its parts (Start); parts that may be sent move to the queue of their shard's lane (Release),
// and leave in batches while the lane's window has room (FlushShard).
//
// The client's loop calls everything here. A push gets its round in Start, so rounds follow the order of the
// calls. PartOps refer to the operation's source; no payload is copied.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/strings.h"
#include "wire/codec.h"
#include "worker/client.h"

namespace sluice::worker {
namespace {

size_t ElementBytes(const Operation& op, DType dtype) {
  if (op.kind == OpKind::kState && op.slot == 0) return 0;
  if (op.kind == OpKind::kState || op.slot > 0) return dtype == DType::kFloat64 ? 8 : 4;
  return SizeOf(dtype);
}

wire::Store::Purpose PurposeOf(OpKind kind) {
  using Purpose = wire::Store::Purpose;
  switch (kind) {
    case OpKind::kInit:
      return Purpose::kInit;
    case OpKind::kState:
      return Purpose::kState;
    case OpKind::kSet:
      return Purpose::kWeight;
    default:
      return Purpose::kRows;
  }
}

wire::Pull::Want WantOf(OpKind kind) {
  using Want = wire::Pull::Want;
  return kind == OpKind::kPull ? Want::kValue : kind == OpKind::kVersion ? Want::kVersion : Want::kSet;
}

}  // namespace

size_t Client::PushedBytes(const Operation& op, const KeyState& key, const plan::Part& part) {
  return compression::EncodedBytes(op.compression, key.entry.spec.dtype, static_cast<size_t>(part.length));
}

size_t Client::PushedBytes(const Operation& op, const KeyState& key) {
  return std::transform_reduce(key.parts.begin(), key.parts.end(), size_t{0}, std::plus<>(),
                               [&](const plan::Part& part) { return PushedBytes(op, key, part); });
}

std::optional<Failure> Client::ImpossibleReason(const Operation& op) const {
  if (failure_) return failure_;
  for (const PerKeyOp& key_op : op.keys)
    if (auto why = ImpossibleReason(op, key_op)) return why;
  return std::nullopt;
}

std::optional<Failure> Client::ImpossibleReason(const Operation& op, const PerKeyOp& key_op) const {
  const KeyState* key = Find(key_op.key);
  if (key == nullptr)
    return Fail(ErrorCode::kNotFound, "key number ", key_op.key, " has not been initialised");
  // A push belongs to a later round than the refused one, and cannot close before it.
  if (key->refusal && (op.IsPush() || NeedsRound(op, key_op, key->refused_round))) return key->refusal;
  const size_t source = op.keys.size() == 1 ? op.source.size() : PushedBytes(op, *key);
  const std::string why = MismatchReason(op, key_op, *key, source);
  if (why.empty()) return std::nullopt;
  return Fail(ErrorCode::kInvalidArgument, Name(op.kind), " of key ", key->name, ": ", why);
}

std::vector<std::shared_ptr<Operation>> Client::SplitPerKey(Operation& op) const {
  struct Ends {
    size_t left;
    Status status;
    Callback done;
  };
  const auto ends = std::make_shared<Ends>(Ends{op.keys.size(), Status::Ok(), std::move(op.done)});
  std::vector<std::shared_ptr<Operation>> each;
  size_t offset = 0;
  for (PerKeyOp& key_op : op.keys) {
    const auto& one = each.emplace_back(NewOperation(op.kind, key_op.key));
    one->only() = std::move(key_op);
    one->priority = op.priority;
    one->samples = op.samples;
    one->divisor = op.divisor;
    one->opened = op.opened;
    one->deadline = op.deadline;
    if (const KeyState* key = Find(one->only().key); key != nullptr && op.HasPayload()) {
      const size_t bytes = PushedBytes(op, *key);
      one->source = op.source.Slice(offset, bytes);
      offset += bytes;
    }
    one->done = [ends](const Status& status) {
      if (!status.ok() && ends->status.ok()) ends->status = status;
      if (--ends->left == 0 && ends->done) ends->done(ends->status);
    };
  }
  return each;
}

void Client::Start(Time now, std::shared_ptr<Operation> op, NetworkRef network) {
  if (const std::optional<Failure> why = ImpossibleReason(*op)) {
    if (failure_ || op->keys.size() == 1) return FinishOperation(*op, *why);
    for (auto& one : SplitPerKey(*op)) Start(now, std::move(one), network);
    return;
  }
  size_t parts = 0;
  for (PerKeyOp& key_op : op->keys) {
    KeyState& key = *Find(key_op.key);
    parts += key.parts.size();
    if (op->IsPush()) key_op.round = ++key.pushed;
    if (key.pushed == 0 || op->slot > 0 ||
        !compression::CanEncodeWeights(op->compression.weights, key.entry.spec.dtype))
      op->compression.weights = Compression::kNone;
    op->one_state = op->kind == OpKind::kPull && op->slot == 0 && key.entry.mode == wire::SyncMode::kAsync;
  }
  if (parts == 0) return FinishOperation(*op, Status::Ok());
  op->opened = now;
  const PartOpArray part_ops = std::allocate_shared<PartOp[]>(MemoryOf<PartOp>(records_), parts);
  op->rows != nullptr ? AppendRows(now, op, part_ops) : AppendParts(now, op, part_ops);
  if (op->parts_left == 0) return FinishOperation(*op, Status::Ok());
  Open(op);
  for (const PerKeyOp& key_op : op->keys) {
    KeyState& key = *Find(key_op.key);
    for (PartSequencer& sequencer : key.sequencers) Release(sequencer);
    if (!op->IsPush()) continue;
    const size_t bytes = op->keys.size() == 1 ? op->source.size() : PushedBytes(*op, key);
    tracer_.OnStage(now, Stage::kQueue, key_op.key, key_op.round, bytes);
  }
  if (!batching_) FlushShards(now, network);
}

// Each worker begins with a different shard, so that not all send to the same one first.
void Client::FlushShards(Time now, NetworkRef network) {
  for (uint32_t i = 0; i < num_shards(); ++i) FlushShard(now, (rank() + i) % num_shards(), network);
}

std::string Client::MismatchReason(const Operation& op, const PerKeyOp& key_op, const KeyState& key,
                                   size_t source) {
  if (const size_t largest = LargestFrame(op, key); largest > wire::kMostFrameBytes)
    return StrCat("one of its parts takes ", largest, " bytes, and at most ", wire::kMostFrameBytes,
                  " travel in one frame");
  const bool of_rows = op.rows != nullptr;
  const bool any = op.kind == OpKind::kVersion || (op.kind == OpKind::kState && op.slot == 0);
  if (!any && of_rows != key.entry.spec.rows.has_value())
    return of_rows ? "the key is not row-sparse" : "the key is row-sparse";
  if (of_rows || op.WantsVersion()) return {};
  const size_t total =
      static_cast<size_t>(key.entry.spec.shape.size()) * ElementBytes(op, key.entry.spec.dtype);
  const auto unlike = [](size_t given, size_t expected) {
    return given == expected ? "" : StrCat(given, " bytes were given, the key has ", expected);
  };
  if (op.HasPayload()) {
    if (std::string why = unlike(source, op.IsPush() ? PushedBytes(op, key) : total); !why.empty())
      return why;
  }
  return op.WantsValue() ? unlike(key_op.destination.size(), total) : "";
}

size_t Client::LargestFrame(const Operation& op, const KeyState& key) {
  if (op.rows != nullptr) {
    size_t largest = 0;
    for (const auto* byte_ranges : {&op.rows->sources, &op.rows->destinations})
      for (const ByteRange& byte_range : *byte_ranges) largest = std::max(largest, byte_range.bytes);
    return largest;
  }
  if (key.parts.empty() || op.WantsVersion()) return 0;
  const plan::Part& longest = key.parts.front();
  if (op.IsPush()) return PushedBytes(op, key, longest);
  return static_cast<size_t>(longest.length) * ElementBytes(op, key.entry.spec.dtype);
}

void Client::AppendParts(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops) {
  ByteRange source;
  for (uint32_t key_index = 0; key_index < op->keys.size(); ++key_index) {
    KeyState& key = *Find(op->keys[key_index].key);
    const size_t width = ElementBytes(*op, key.entry.spec.dtype);
    for (uint32_t i = 0; i < key.parts.size(); ++i) {
      const plan::Part& planned = key.parts[i];
      if (op->IsPush()) AddHorizonProbe(now, key, i, op->keys[key_index].round);
      if (op->kind == OpKind::kSet) AddVersionProbe(now, key, i, op->keys[key_index].round);
      const size_t bytes = op->WantsVersion() ? 0 : static_cast<size_t>(planned.length) * width;
      source.bytes = op->IsPush() ? PushedBytes(*op, key, planned) : op->HasPayload() ? bytes : 0;
      PartOp& part = part_ops[op->parts_left++];
      part.key_index = key_index;
      part.source = source;
      part.destination = {static_cast<size_t>(planned.offset) * width, bytes};
      Append(PartOpPtr(part_ops, &part), op, key, i);
      source.offset += source.bytes;
    }
  }
}

void Client::AppendRows(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops) {
  KeyState& key = *Find(op->only().key);
  for (uint32_t i = 0; i < key.parts.size(); ++i) {
    ByteRange destination;
    if (op->IsPush()) {
      AddHorizonProbe(now, key, i, op->only().round);
    } else if (op->WantsValue()) {
      destination = op->rows->destinations[i];
      if (destination.bytes == 0) continue;
    } else if (op->rows->sources[i].bytes == 0) {
      continue;
    }
    PartOp& part = part_ops[op->parts_left++];
    part.source = op->rows->sources[i];
    part.destination = destination;
    Append(PartOpPtr(part_ops, &part), op, key, i);
  }
}

void Client::Open(const std::shared_ptr<Operation>& op) {
  op->number = next_order_++;
  operations_.emplace_hint(operations_.end(), op->number, op);
  earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
  next_report_ = std::min(next_report_, op->opened + membership::WaitReports::kFirst);
}

// A push may be at most kMaxRoundsAhead rounds ahead of the last round that the shard has closed.
// When it is not known that this holds, a pull of the version goes first, and the push waits for
// its answer as for that of any pull.
void Client::AddHorizonProbe(Time now, KeyState& key, uint32_t part, uint64_t round) {
  const PartSequencer& sequencer = key.sequencers[part];
  if (round <= std::max(sequencer.known_version, sequencer.requested_version) + plan::kMaxRoundsAhead) return;
  AddVersionProbe(now, key, part, round - plan::kMaxRoundsAhead / 2);
}

// Appends a pull of the version, so that the push or set issued next waits until
// the part has the version `round`.
void Client::AddVersionProbe(Time now, KeyState& key, uint32_t part, uint64_t round) {
  PartSequencer& sequencer = key.sequencers[part];
  if (round <= sequencer.known_version) return;
  auto op = NewOperation(OpKind::kVersion, key.entry.id);
  op->only().round = round;
  op->name = "wait before a push";
  op->opened = now;
  op->priority = INT32_MAX;
  op->parts_left = 1;
  sequencer.requested_version = std::max(sequencer.requested_version, round);
  Open(op);
  Append(std::allocate_shared<PartOp>(MemoryOf<PartOp>(records_)), std::move(op), key, part);
}

void Client::Append(PartOpPtr part, std::shared_ptr<Operation> op, KeyState& key, uint32_t index) {
  part->op = std::move(op);
  part->ref = {key.entry.id, index};
  part->shard = key.parts[index].shard;
  part->order = next_order_++;
  key.sequencers[index].Append(std::move(part));
}

void Client::Release(PartSequencer& sequencer) {
  for (PartOpPtr& part : sequencer.Release()) {
    const uint32_t shard = part->shard;
    Lane& lane = shards_[shard]->LaneOf(*part);
    lane.queue.Add(std::move(part));
  }
}

// Among the lanes that may send, returns the one whose next part has the higher priority, or was
// issued first. Null: neither may send.
Client::Lane* Client::PickLane(Shard& shard) {
  if (!shard.pushes.CanSend()) return shard.pulls.CanSend() ? &shard.pulls : nullptr;
  return shard.pulls.CanSend() && shard.pulls.queue.Before(shard.pushes.queue) ? &shard.pulls : &shard.pushes;
}

void Client::ReleaseInFlight(PartOp& part) {
  shards_[part.shard]->LaneOf(part).in_flight -= std::exchange(part.in_flight, 0);
}

void Client::FlushShard(Time now, uint32_t index, NetworkRef network) {
  Shard& shard = *shards_[index];
  while (Lane* lane = PickLane(shard)) {
    const size_t most = lane == &shard.pushes ? SendQueue::kPushedBytes : SendQueue::kPulledBytes;
    const size_t half = lane->window.bytes() / 2;
    PartOps batch = lane->queue.NextBatch(std::min(most, half), half);
    if (batch.empty()) continue;
    lane->last_priority = batch.back()->op->priority;
    const uint64_t id = next_id_++;
    for (const PartOpPtr& part : batch) {
      part->sent = true;
      part->in_flight = part->bytes();
      lane->in_flight += part->bytes();
      part->request = id;
      if (part->op->IsPush()) tracer_.OnStage(now, Stage::kPush, part->ref.key, part->round(), part->bytes());
    }
    SendBatch(index, id, batch, network);
    shard.requests.Add(now, id, lane == &shard.pushes ? lane->in_flight : 0, std::move(batch));
  }
}

void Client::SendBatch(uint32_t shard, uint64_t id, const PartOps& batch, NetworkRef network) {
  const Operation& first = *batch.front()->op;
  wire::Message message = Envelope(wire::Ack{}, id);
  const auto add_frame = [&](const PartOp& part) {
    message.payload.push_back(part.op->source.Slice(part.source.offset, part.source.bytes));
  };
  switch (first.kind) {
    case OpKind::kPush:
    case OpKind::kPushPull: {
      wire::Push push{.samples = first.samples,
                      .divisor = first.divisor,
                      .parts = {},
                      .compression = first.compression.type,
                      .values = first.compression.weights,
                      .exponent = first.exponent};
      for (const PartOpPtr& part : batch) {
        push.parts.push_back({part->ref, part->round(), part->WantsValue()});
        add_frame(*part);
      }
      message.body = std::move(push);
      break;
    }
    case OpKind::kPull:
    case OpKind::kVersion:
    case OpKind::kAwaitSet: {
      wire::Pull pull{.want = WantOf(first.kind), .parts = {}, .values = first.compression.weights};
      for (const PartOpPtr& part : batch)
        pull.parts.push_back({part->ref, part->op->slot, part->op->slot == 0 ? part->round() : 0});
      message.body = std::move(pull);
      break;
    }
    case OpKind::kPullRows: {
      wire::PullRows pull;
      for (const PartOpPtr& part : batch) {
        pull.parts.push_back({part->ref, part->op->slot, part->round()});
        add_frame(*part);
      }
      message.body = std::move(pull);
      break;
    }
    case OpKind::kInit:
    case OpKind::kState:
    case OpKind::kRows:
    case OpKind::kSet: {
      wire::Store store{.purpose = PurposeOf(first.kind), .parts = {}};
      for (const PartOpPtr& part : batch) {
        store.parts.push_back({part->ref, part->op->slot, part->round()});
        add_frame(*part);
      }
      message.body = std::move(store);
      break;
    }
  }
  network.Send(shards_[shard]->peer, std::move(message));
}

}  // namespace sluice::worker
