// Operations become messages, answers become completions.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/strings.h"
#include "worker/client.h"
#include "worker/pull/landing.h"

namespace sluice::worker {
namespace {

size_t ElementBytes(const Operation& op, DType dtype) {
  if (op.kind == OpKind::kState && op.slot == 0) return 0;
  if (op.kind == OpKind::kState || op.slot > 0) return dtype == DType::kFloat64 ? 8 : 4;
  return SizeOf(dtype);
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
  const size_t width = ElementBytes(*op, key.entry.spec.dtype);
  const size_t total = static_cast<size_t>(key.entry.spec.shape.size()) * width;
  const bool lands = op->kind == OpKind::kPull || op->kind == OpKind::kPushPull;
  const size_t sent = op->IsPush() ? PushedBytes(*op, key) : op->Carries() ? total : 0;
  const auto refuse = [&](size_t given, size_t expected) {
    FinishOperation(*op, Fail(ErrorCode::kInvalidArgument, Name(op->kind), " of key ", op->key_name, ": ",
                              given, " bytes were given, the key has ", expected));
  };
  if (op->Carries() && op->source.size() != sent) return refuse(op->source.size(), sent);
  if (lands && op->destination.bytes.size() != total) return refuse(op->destination.bytes.size(), total);
  if (op->IsPush()) op->round = ++key.pushed;
  if (key.pushed == 0 || op->slot > 0 ||
      !compression::IsOfWeights(op->compression.weights, key.entry.spec.dtype))
    op->compression.weights = Compression::kNone;
  op->parts_left = key.parts.size();
  if (op->parts_left == 0) return FinishOperation(*op, Status::Ok());
  Open(op);
  Extent source;
  for (uint32_t i = 0; i < key.parts.size(); ++i) {
    const plan::Part& planned = key.parts[i];
    if (op->IsPush()) AddWindowPull(now, key, i, op->round);
    const size_t bytes = op->kind == OpKind::kVersion ? 0 : static_cast<size_t>(planned.length) * width;
    source.bytes = op->IsPush() ? PushedBytes(*op, key, planned) : op->Carries() ? bytes : 0;
    Append(op, key, i, source, {static_cast<size_t>(planned.offset) * width, bytes});
    source.offset += source.bytes;
    Release(key.flows[i]);
  }
  if (op->IsPush()) tracer_.OnStage(now, Stage::kQueue, op->key, op->round, sent);
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) FlushShard(now, shard, network);
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
Client::Lane* Client::NextLane(Shard& shard) const {
  const auto open = [this](const Lane& lane) {
    return !lane.queue.empty() && lane.in_flight < options_.max_inflight_bytes;
  };
  if (!open(shard.pushes)) return open(shard.pulls) ? &shard.pulls : nullptr;
  return open(shard.pulls) && shard.pulls.queue.Before(shard.pushes.queue) ? &shard.pulls : &shard.pushes;
}

void Client::Landed(PartOp& part) {
  shards_[part.shard]->LaneOf(part).in_flight -= std::exchange(part.in_flight, 0);
}

void Client::FlushShard(Time now, uint32_t index, NetworkRef network) {
  Shard& shard = *shards_[index];
  while (Lane* lane = NextLane(shard)) {
    PartOps batch = lane->queue.NextBatch();
    if (batch.empty()) continue;
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
    shard.requests.Add(now, id, std::move(batch));
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
    case OpKind::kInit:
    case OpKind::kState: {
      wire::Store store{
          .purpose = first.kind == OpKind::kInit ? wire::Store::Purpose::kInit : wire::Store::Purpose::kState,
          .parts = {}};
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

// The shard has it.
void Client::Acknowledge(Time now, PartOp& part) {
  if (!std::exchange(part.acked, true) && part.op->IsPush())
    tracer_.OnStage(now, Stage::kWait, part.ref.key, part.op->round, part.bytes());
  Landed(part);
}

void Client::OnAck(Time now, uint32_t shard, uint64_t id) {
  Requests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;  // late: answered before
  for (const PartOpPtr& part : request->parts) {
    if (part->finished || !part->Carries()) continue;
    Acknowledge(now, *part);
    if (!part->WantsAnswer()) Finish(part);
  }
  if (Requests::Finished(*request)) shards_[shard]->requests.Erase(id);
}

void Client::OnValues(Time now, uint32_t shard, const wire::Message& message) {
  const auto& values = std::get<wire::Values>(message.body);
  for (size_t i = 0; i < values.parts.size(); ++i) {
    const wire::ValuePart& value = values.parts[i];
    const auto it = keys_.find(value.ref.key);
    if (it == keys_.end() || value.ref.part >= it->second.flows.size() ||
        it->second.parts[value.ref.part].shard != shard) {
      LOG_EVERY_N(WARNING, 100) << "shard " << shard
                                << " sent a value of a part that is not its own: " << wire::Describe(message);
      continue;
    }
    PartFlow& flow = it->second.flows[value.ref.part];
    if (value.slot == 0) flow.known_version = std::max(flow.known_version, value.version);
    for (const PartOpPtr& part : flow.AnsweredBy(value, values, message.in_reply_to)) {
      if (!part->WantsAnswer()) Acknowledge(now, *part);
      if (part->WantsValue()) {
        if (!Fits(*part, message.payload[i], values.compression)) {
          LOG_EVERY_N(WARNING, 100) << "shard " << shard << " sent " << message.payload[i].size()
                                    << " bytes for a part of " << part->destination.bytes;
          continue;
        }
        tracer_.OnStage(now, Stage::kLand, value.ref.key, value.version, part->destination.bytes);
        Land(*part, message.payload[i], values.compression);
      }
      part->op->lowest_version = std::min(part->op->lowest_version, value.version);
      Finish(part);
    }
    Release(flow);
  }
  if (Requests::Request* request = shards_[shard]->requests.Find(message.in_reply_to);
      request != nullptr && Requests::Finished(*request)) {
    shards_[shard]->requests.Erase(message.in_reply_to);
  }
}

bool Client::NeedsRound(const Operation& op, uint64_t round) {
  const bool of_rounds = op.IsPush() || (op.kind == OpKind::kPull && op.slot == 0);
  return of_rounds && op.round >= round;
}

void Client::RefuseFrom(KeyState& key, const Operation& push, const Failure& failure) {
  if (push.round >= key.refused_round) return;
  key.refused_round = push.round;
  key.refusal =
      Fail(failure.code, "round ", push.round, " cannot close, its push was refused: ", failure.message);
  for (const auto& [number, op] : operations_) {
    if (op->key == push.key && NeedsRound(*op, push.round)) FinishOperation(*op, *key.refusal);
  }
}

// A shard refuses a message as a whole and tells one reason: sent by themselves, the operations that it has
// nothing against go on, and the others learn their own reasons.
void Client::SendAlone(Time now, uint32_t shard, const PartOps& parts, NetworkRef network) {
  for (auto first = parts.begin(); first != parts.end();) {
    const auto last =
        std::find_if(first, parts.end(), [&](const auto& part) { return part->op != (*first)->op; });
    PartOps batch;
    std::copy_if(first, last, std::back_inserter(batch), [](const auto& part) { return !part->finished; });
    first = last;
    if (batch.empty()) continue;
    const uint64_t id = next_id_++;
    for (const PartOpPtr& part : batch) part->request = id;
    SendBatch(shard, id, batch, network);
    shards_[shard]->requests.Add(now, id, std::move(batch));
  }
}

void Client::OnShardError(Time now, uint32_t shard, uint64_t id, const Failure& failure, NetworkRef network) {
  Requests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;
  const PartOps parts = std::move(request->parts);
  shards_[shard]->requests.Erase(id);
  if (parts.front()->op != parts.back()->op) return SendAlone(now, shard, parts, network);
  for (const PartOpPtr& part : parts) {
    Operation& op = *part->op;
    FinishOperation(op, failure);
    if (op.IsPush()) RefuseFrom(keys_.at(op.key), op, failure);
  }
  std::erase_if(operations_, [](const auto& entry) { return entry.second->finished; });
}

void Client::OnShardWaiting(uint32_t shard, uint64_t id, const wire::BarrierWaiting& waiting) {
  Requests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;
  for (const PartOpPtr& part : request->parts) {
    if (part->op->key_name.text() == waiting.id) part->op->waiting_for = waiting.missing;
  }
}

void Client::Repeat(Time now, uint32_t index, NetworkRef network) {
  Shard& shard = *shards_[index];
  for (const uint64_t id : shard.requests.Due(now)) {
    PartOps again, value_only;
    for (const PartOpPtr& part : shard.requests.Find(id)->parts) {
      if (part->finished) continue;
      // The shard has the push: what is missing is the value, and asking for it needs no bytes.
      (part->acked ? value_only : again).push_back(part);
    }
    if (!again.empty()) SendBatch(index, id, again, network);
    if (value_only.empty()) continue;
    wire::Pull pull{.parts = {}, .values = value_only.front()->op->compression.weights};
    for (const PartOpPtr& part : value_only)
      pull.parts.push_back({part->ref, part->op->slot, part->op->round});
    network.Send(shard.peer, Envelope(std::move(pull), id));
  }
}

void Client::Finish(const PartOpPtr& part) {
  part->finished = true;
  Landed(*part);
  PartFlow& flow = keys_.at(part->ref.key).flows[part->ref.part];
  flow.Sweep();
  Release(flow);
  Operation& op = *part->op;
  if (op.finished || --op.parts_left > 0) return;
  FinishOperation(op, Status::Ok());
  operations_.erase(op.number);
}

void Client::Open(const std::shared_ptr<Operation>& op) {
  op->number = next_order_++;
  operations_.emplace(op->number, op);
  earliest_deadline_ = std::min(earliest_deadline_, op->deadline);
}

// A round that others wait for needs its push, whoever has given up on the answer. From here on the caller
// may write to the source: what has not arrived is copied.
void Client::GoOnAsPush(const std::shared_ptr<Operation>& op) {
  std::shared_ptr<Operation> push;
  for (PartFlow& flow : keys_.at(op->key).flows) {
    for (const PartOpPtr& part : flow.ops()) {
      if (part->op != op || part->finished || part->acked) continue;
      if (push == nullptr) {
        push = NewOperation(OpKind::kPush, op->key);
        push->key_name = op->key_name;
        push->priority = op->priority;
        push->round = op->round;
        push->samples = op->samples;
        push->divisor = op->divisor;
        push->compression = op->compression;
        push->source = Frame::Copy(op->source.bytes());
        Open(push);
      }
      part->op = push;
      ++push->parts_left;
    }
  }
}

void Client::FinishOperation(Operation& op, const Status& status) {
  if (op.finished) return;
  op.finished = true;
  op.source = Frame();
  if (op.done)
    completions_.push_back(
        [done = std::move(op.done), how = Status(status)](Time, NetworkRef) mutable { done(how); });
  if (status.ok() || !keys_.contains(op.key)) return;
  // What is left of a failed operation must not hold up its parts.
  KeyState& key = keys_.at(op.key);
  for (PartFlow& flow : key.flows) {
    for (const PartOpPtr& part : flow.ops()) {
      if (part->op.get() != &op || part->finished) continue;
      part->finished = true;
      Landed(*part);
    }
    flow.Sweep();
    Release(flow);
  }
}

}  // namespace sluice::worker
