// KeyedOperations: a call on keys becomes parts. An operation is checked, gets its round, is cut into
// parts, and appended to the sequencers of its parts (Start); parts that may be sent then move to the
// queues of their shards (ConnectionTable::Release) and leave as the windows allow.
//
// The client's loop calls everything here. A push gets its round in Start, so rounds follow the order of
// the calls. PartOps refer to the operation's source; no payload is copied.
#include "worker/operations/keyed_operations.h"

#include "worker/operations/validation.h"

namespace sluice::worker {

// Only worker 0 sets; the others wait for it.
void KeyedOperations::CountSet(Operation& op) {
  const bool sets = self_.rank() == 0;
  op.kind = sets ? OpKind::kSet : OpKind::kAwaitSet;
  DeclaredKey* key = keys_.Find(op.only().key);
  if (key == nullptr) return;
  ++key->sets;
  op.only().round = sets || key->entry.mode != wire::SyncMode::kAsync ? key->pushed : key->sets;
}

void KeyedOperations::Submit(Time now, std::shared_ptr<Operation> op, transport::Network& network) {
  if (op->kind == OpKind::kSet) {
    CountSet(*op);
  } else if (op->ReadsVersion() && !op->latest) {
    for (PerKeyOp& key_op : op->keys) key_op.round = keys_.PushedRound(key_op.key);
  }
  if (op->kind == OpKind::kPush || op->kind == OpKind::kSet) op->deadline = Time::max();
  open_.CountCopied(op->copied);
  Start(now, std::move(op), network);
}

void KeyedOperations::Start(Time now, std::shared_ptr<Operation> op, transport::Network& network) {
  if (failure_) return open_.Finish(*op, *failure_);
  if (const Status status = ValidateOperation(*op, keys_); !status.ok()) {
    if (op->keys.size() == 1) return open_.Finish(*op, status);
    for (auto& one : open_.SplitPerKey(*op)) Start(now, std::move(one), network);
    return;
  }
  size_t parts = 0;
  for (PerKeyOp& key_op : op->keys) {
    DeclaredKey& key = *keys_.Find(key_op.key);
    parts += key.PartsIn(op->range).size();
    if (op->IsPush()) key_op.round = op->begins_round ? ++key.pushed : key.pushed;
    if (key.pushed == 0 || op->slot > 0 ||
        !compression::CanEncodeWeights(op->compression.weights, key.entry.spec.dtype))
      op->compression.weights = Compression::kNone;
    op->one_state = op->kind == OpKind::kPull && op->slot == 0 && key.entry.mode == wire::SyncMode::kAsync;
  }
  if (parts == 0) return open_.Finish(*op, Status::Ok());
  op->opened = now;
  const PartOpArray part_ops = std::allocate_shared<PartOp[]>(MemoryOf<PartOp>(open_.records()), parts);
  op->rows != nullptr ? AppendRows(now, op, part_ops) : AppendParts(now, op, part_ops);
  if (op->parts_left == 0) return open_.Finish(*op, Status::Ok());
  open_.Open(op);
  for (const PerKeyOp& key_op : op->keys) {
    DeclaredKey& key = *keys_.Find(key_op.key);
    for (PartSequencer& sequencer : key.SequencersIn(op->range)) connections_.Release(sequencer);
    if (!op->IsPush()) continue;
    const size_t bytes = op->keys.size() == 1 ? op->source.size() : PushedBytes(*op, key);
    tracer_.OnStage(now, Stage::kQueue, key_op.key, key_op.round, bytes);
  }
  if (!batching_) connections_.Flush(now, network);
}

void KeyedOperations::RunAsBatch(Time now, transport::Network& network, FunctionRef<void()> calls) {
  batching_ = true;
  calls();
  batching_ = false;
  connections_.Flush(now, network);
}

void KeyedOperations::FailAll(const Failure& failure) {
  failure_ = failure;
  open_.FinishAll(failure);
  connections_.Clear();
  keys_.ClearSequencers();
}

void KeyedOperations::AppendParts(Time now, const std::shared_ptr<Operation>& op,
                                  const PartOpArray& part_ops) {
  ByteRange source;
  for (uint32_t key_index = 0; key_index < op->keys.size(); ++key_index) {
    DeclaredKey& key = *keys_.Find(op->keys[key_index].key);
    const size_t width = ElementBytes(*op, key.entry.spec.dtype);
    uint32_t i = op->range.begin;
    for (const plan::Part& planned : key.PartsIn(op->range)) {
      if (op->IsPush()) AddHorizonProbe(now, key, i, op->keys[key_index].round);
      if (op->kind == OpKind::kSet) AddVersionProbe(now, key, i, op->keys[key_index].round);
      const size_t bytes = op->WantsVersion() ? 0 : static_cast<size_t>(planned.length) * width;
      source.bytes = op->IsPush() ? PushedBytes(*op, key, planned) : op->HasPayload() ? bytes : 0;
      PartOp& part = part_ops.get()[op->parts_left++];
      part.key_index = key_index;
      part.source = source;
      part.destination = {static_cast<size_t>(planned.offset) * width, bytes};
      Append(PartOpPtr(part_ops, &part), op, key, i++);
      source.offset += source.bytes;
    }
  }
}

void KeyedOperations::AppendRows(Time now, const std::shared_ptr<Operation>& op,
                                 const PartOpArray& part_ops) {
  DeclaredKey& key = *keys_.Find(op->only().key);
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
    PartOp& part = part_ops.get()[op->parts_left++];
    part.source = op->rows->sources[i];
    part.destination = destination;
    Append(PartOpPtr(part_ops, &part), op, key, i);
  }
}

// A push may be at most kMaxRoundsAhead rounds ahead of the last round that the shard has closed.
// When it is not known that this holds, a pull of the version goes first, and the push waits for
// its answer as for that of any pull.
void KeyedOperations::AddHorizonProbe(Time now, DeclaredKey& key, uint32_t part, uint64_t round) {
  const PartSequencer& sequencer = key.sequencers[part];
  if (round <= std::max(sequencer.version, sequencer.requested_version) + plan::kMaxRoundsAhead) return;
  AddVersionProbe(now, key, part, round - plan::kMaxRoundsAhead / 2);
}

// Appends a pull of the version, so that the push or set issued next waits until
// the part has the version `round`.
void KeyedOperations::AddVersionProbe(Time now, DeclaredKey& key, uint32_t part, uint64_t round) {
  PartSequencer& sequencer = key.sequencers[part];
  if (round <= sequencer.version) return;
  auto op = open_.New(OpKind::kVersion, key.entry.id);
  op->only().round = round;
  op->name = "wait before a push";
  op->opened = now;
  op->priority = INT32_MAX;
  op->parts_left = 1;
  sequencer.requested_version = std::max(sequencer.requested_version, round);
  open_.Open(op);
  Append(std::allocate_shared<PartOp>(MemoryOf<PartOp>(open_.records())), std::move(op), key, part);
}

void KeyedOperations::Append(PartOpPtr part, std::shared_ptr<Operation> op, DeclaredKey& key,
                             uint32_t index) {
  part->op = std::move(op);
  part->ref = {key.entry.id, index};
  part->shard = key.parts[index].shard;
  part->order = open_.TakeOrder();
  key.sequencers[index].Append(std::move(part));
}

}  // namespace sluice::worker
