// Operations become messages.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/strings.h"
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
  return kind == OpKind::kInit ? Purpose::kInit : kind == OpKind::kState ? Purpose::kState : Purpose::kRows;
}

}  // namespace

size_t Client::PushedBytes(const Operation& op, const KeyState& key, const plan::Part& part) {
  return compression::EncodedBytes(op.compression, key.entry.spec.dtype, static_cast<size_t>(part.length));
}

size_t Client::PushedBytes(const Operation& op, const KeyState& key) {
  return std::transform_reduce(key.parts.begin(), key.parts.end(), size_t{0}, std::plus<>(),
                               [&](const plan::Part& part) { return PushedBytes(op, key, part); });
}

void Client::Start(Time now, std::shared_ptr<Operation> op, NetworkRef network) {
  const auto it = keys_.find(op->key);
  if (failure_ || it == keys_.end()) {
    const Failure failure =
        failure_ ? *failure_
                 : Fail(ErrorCode::kNotFound, "key number ", op->key, " has not been initialised");
    return FinishOperation(*op, failure);
  }
  KeyState& key = it->second;
  if (key.refusal && NeedsRound(*op, key.refused_round)) return FinishOperation(*op, *key.refusal);
  op->key_name = key.name;
  if (const std::string why = WhyUnfit(*op, key); !why.empty()) {
    return FinishOperation(
        *op, Fail(ErrorCode::kInvalidArgument, Name(op->kind), " of key ", op->key_name, ": ", why));
  }
  if (op->IsPush()) op->round = ++key.pushed;
  if (key.pushed == 0 || op->slot > 0 ||
      !compression::IsOfWeights(op->compression.weights, key.entry.spec.dtype))
    op->compression.weights = Compression::kNone;
  op->rows != nullptr ? AppendRows(now, op, key) : AppendParts(now, op, key);
  if (op->parts_left == 0) return FinishOperation(*op, Status::Ok());
  Open(op);
  for (PartFlow& flow : key.flows) Release(flow);
  if (op->IsPush()) tracer_.OnStage(now, Stage::kQueue, op->key, op->round, op->source.size());
  if (!together_) FlushShards(now, network);
}

// Each worker begins with another shard: they would all queue at one.
void Client::FlushShards(Time now, NetworkRef network) {
  for (uint32_t i = 0; i < num_shards(); ++i) FlushShard(now, (rank() + i) % num_shards(), network);
}

std::string Client::WhyUnfit(const Operation& op, const KeyState& key) {
  const bool of_rows = op.rows != nullptr;
  const bool any = op.kind == OpKind::kVersion || (op.kind == OpKind::kState && op.slot == 0);
  if (!any && of_rows != key.entry.spec.rows.has_value())
    return of_rows ? "the key is not row-sparse" : "the key is row-sparse";
  if (of_rows || op.kind == OpKind::kVersion) return {};
  const size_t total =
      static_cast<size_t>(key.entry.spec.shape.size()) * ElementBytes(op, key.entry.spec.dtype);
  const auto unlike = [](size_t given, size_t expected) {
    return given == expected ? "" : StrCat(given, " bytes were given, the key has ", expected);
  };
  if (op.Carries()) {
    if (std::string why = unlike(op.source.size(), op.IsPush() ? PushedBytes(op, key) : total); !why.empty())
      return why;
  }
  return op.WantsValue() ? unlike(op.destination.size(), total) : "";
}

void Client::AppendParts(Time now, const std::shared_ptr<Operation>& op, KeyState& key) {
  const size_t width = ElementBytes(*op, key.entry.spec.dtype);
  Extent source;
  op->parts_left = key.parts.size();
  for (uint32_t i = 0; i < key.parts.size(); ++i) {
    const plan::Part& planned = key.parts[i];
    if (op->IsPush()) AddWindowPull(now, key, i, op->round);
    const size_t bytes = op->kind == OpKind::kVersion ? 0 : static_cast<size_t>(planned.length) * width;
    source.bytes = op->IsPush() ? PushedBytes(*op, key, planned) : op->Carries() ? bytes : 0;
    Append(op, key, i, source, {static_cast<size_t>(planned.offset) * width, bytes});
    source.offset += source.bytes;
  }
}

void Client::AppendRows(Time now, const std::shared_ptr<Operation>& op, KeyState& key) {
  for (uint32_t i = 0; i < key.parts.size(); ++i) {
    Extent destination;
    if (op->IsPush()) {
      AddWindowPull(now, key, i, op->round);
    } else if (op->WantsValue()) {
      destination = op->rows->destinations[i];
      if (destination.bytes == 0) continue;
    } else if (op->rows->sources[i].bytes == 0) {
      continue;
    }
    Append(op, key, i, op->rows->sources[i], destination);
    ++op->parts_left;
  }
}

void Client::Open(const std::shared_ptr<Operation>& op) {
  op->number = next_order_++;
  operations_.emplace_hint(operations_.end(), op->number, op);
  earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
}

// A push may be at most kMaxRoundsAhead beyond what the shard has closed: when that is not known, the shard
// is asked first, and the push waits for the answer as it waits for any pull.
void Client::AddWindowPull(Time, KeyState& key, uint32_t part, uint64_t round) {
  PartFlow& flow = key.flows[part];
  if (round <= std::max(flow.known_version, flow.asked_version) + plan::kMaxRoundsAhead) return;
  auto op = NewOperation(OpKind::kVersion, key.entry.id);
  op->key_name = key.name;
  op->round = round - plan::kMaxRoundsAhead / 2;
  op->priority = INT32_MAX;
  op->parts_left = 1;
  flow.asked_version = op->round;
  Open(op);
  Append(op, key, part, {}, {});
}

void Client::Append(const std::shared_ptr<Operation>& op, KeyState& key, uint32_t index, Extent source,
                    Extent destination) {
  auto part = std::allocate_shared<PartOp>(MemoryOf<PartOp>(records_));
  part->op = op;
  part->ref = {op->key, index};
  part->shard = key.parts[index].shard;
  part->source = source;
  part->destination = destination;
  part->order = next_order_++;
  key.flows[index].Append(std::move(part));
}

void Client::Release(PartFlow& flow) {
  for (PartOpPtr& part : flow.Release()) {
    const uint32_t shard = part->shard;
    Lane& lane = shards_[shard]->LaneOf(*part);
    lane.queue.Add(std::move(part));
  }
}

// Of the lanes that have something to send and may, the one whose turn it is.
Client::Lane* Client::NextLane(Shard& shard) {
  if (!shard.pushes.Open()) return shard.pulls.Open() ? &shard.pulls : nullptr;
  return shard.pulls.Open() && shard.pulls.queue.Before(shard.pushes.queue) ? &shard.pulls : &shard.pushes;
}

void Client::Landed(PartOp& part) {
  shards_[part.shard]->LaneOf(part).in_flight -= std::exchange(part.in_flight, 0);
}

void Client::FlushShard(Time now, uint32_t index, NetworkRef network) {
  Shard& shard = *shards_[index];
  while (Lane* lane = NextLane(shard)) {
    const size_t most = lane == &shard.pushes ? SendQueue::kPushedBytes : SendQueue::kPulledBytes;
    PartOps batch = lane->queue.NextBatch(std::min(most, lane->window.bytes() / 2));
    if (batch.empty()) continue;
    lane->last_priority = batch.back()->op->priority;
    const uint64_t id = next_id_++;
    for (const PartOpPtr& part : batch) {
      part->sent = true;
      part->in_flight = part->bytes();
      lane->in_flight += part->bytes();
      part->request = id;
      if (part->op->IsPush())
        tracer_.OnStage(now, Stage::kPush, part->ref.key, part->op->round, part->bytes());
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
                      .values = first.compression.weights};
      for (const PartOpPtr& part : batch) {
        push.parts.push_back({part->ref, part->op->round, part->WantsValue()});
        add_frame(*part);
      }
      message.body = std::move(push);
      break;
    }
    case OpKind::kPull:
    case OpKind::kVersion: {
      wire::Pull pull{
          .want = first.kind == OpKind::kPull ? wire::Pull::Want::kValue : wire::Pull::Want::kVersion,
          .parts = {},
          .values = first.compression.weights};
      for (const PartOpPtr& part : batch)
        pull.parts.push_back({part->ref, part->op->slot, part->op->slot == 0 ? part->op->round : 0});
      message.body = std::move(pull);
      break;
    }
    case OpKind::kPullRows: {
      wire::PullRows pull;
      for (const PartOpPtr& part : batch) {
        pull.parts.push_back({part->ref, part->op->slot, part->op->round});
        add_frame(*part);
      }
      message.body = std::move(pull);
      break;
    }
    case OpKind::kInit:
    case OpKind::kState:
    case OpKind::kRows: {
      wire::Store store{.purpose = PurposeOf(first.kind), .parts = {}};
      for (const PartOpPtr& part : batch) {
        store.parts.push_back({part->ref, part->op->slot, part->op->round});
        add_frame(*part);
      }
      message.body = std::move(store);
      break;
    }
  }
  network.Send(shards_[shard]->peer, std::move(message));
}

}  // namespace sluice::worker
