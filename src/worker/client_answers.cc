// Client: what the shards answer (acknowledgements, values, errors, status messages), repeats of requests
// without an answer, and the end of operations.
//
// The client's loop calls everything here. An answer may come late or twice, and values may answer
// other requests than the one they came for (PartSequencer::AnsweredBy), so each step first looks
// whether the part has finished. An operation ends once: FinishOperation queues its callbacks and takes
// its parts out of their sequencers.
#include <algorithm>

#include "base/strings.h"
#include "worker/client.h"
#include "worker/pull/deliver.h"

namespace sluice::worker {

// Measures how long the message took to arrive. After a resend it is unknown which copy has arrived, so only
// messages that were sent once are measured.
void Client::NoteArrival(Time now, uint32_t shard, OutstandingRequests::Request& request) {
  const uint64_t in_flight = std::exchange(request.in_flight, 0);
  if (in_flight > 0 && request.repeats == 0)
    shards_[shard]->pushes.window.OnArrival(in_flight, now - request.sent);
}

void Client::Acknowledge(Time now, PartOp& part) {
  if (!std::exchange(part.acked, true) && part.op->IsPush())
    tracer_.OnStage(now, Stage::kWait, part.ref.key, part.round(), part.bytes());
  ReleaseInFlight(part);
}

void Client::OnAck(Time now, uint32_t shard, uint64_t id) {
  OutstandingRequests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;  // a late answer: the request has ended
  NoteArrival(now, shard, *request);
  for (const PartOpPtr& part : request->parts) {
    if (part->finished || !part->HasPayload()) continue;
    Acknowledge(now, *part);
    if (!part->WantsAnswer()) Finish(part);
  }
  if (OutstandingRequests::Finished(*request)) shards_[shard]->requests.Erase(id);
}

void Client::OnValues(Time now, uint32_t shard, const wire::Message& message) {
  const auto& values = std::get<wire::Values>(message.body);
  for (size_t i = 0; i < values.parts.size(); ++i) {
    const wire::ValuePart& value = values.parts[i];
    KeyState* key = Find(value.ref.key);
    if (key == nullptr || value.ref.part >= key->sequencers.size() ||
        key->parts[value.ref.part].shard != shard) {
      LOG_EVERY_N(WARNING, 100) << "shard " << shard
                                << " sent a value of a part that is not its own: " << wire::Describe(message);
      continue;
    }
    PartSequencer& sequencer = key->sequencers[value.ref.part];
    if (value.slot == 0) sequencer.known_version = std::max(sequencer.known_version, value.version);
    if (OutstandingRequests::Request* request = shards_[shard]->requests.Find(message.in_reply_to)) {
      NoteArrival(now, shard, *request);
      shards_[shard]->requests.OnProgress(now, *request);
    }
    for (const PartOpPtr& part : sequencer.AnsweredBy(value, values, message.in_reply_to)) {
      if (!part->WantsAnswer()) Acknowledge(now, *part);
      if (part->WantsValue()) {
        if (!Fits(*part, message.payload[i], values.compression)) {
          LOG_EVERY_N(WARNING, 100) << "shard " << shard << " sent " << message.payload[i].size()
                                    << " bytes for a part of " << part->destination.bytes;
          continue;
        }
        tracer_.OnStage(now, Stage::kDeliver, value.ref.key, value.version, part->destination.bytes);
        bytes_copied_ += Deliver(*part, message.payload[i], values.compression, key->parts.size(),
                                 UsesNonTemporalCopies());
      }
      part->op->lowest_version = std::min(part->op->lowest_version, value.version);
      Finish(part);
    }
    Release(sequencer);
  }
  if (OutstandingRequests::Request* request = shards_[shard]->requests.Find(message.in_reply_to);
      request != nullptr && OutstandingRequests::Finished(*request)) {
    shards_[shard]->requests.Erase(message.in_reply_to);
  }
}

bool Client::NeedsRound(const Operation& op, const PerKeyOp& key_op, uint64_t round) {
  const bool of_rounds = op.IsPush() || (op.kind == OpKind::kPull && op.slot == 0) ||
                         op.kind == OpKind::kPullRows || op.IsExclusive();
  return of_rounds && key_op.round >= round;
}

void Client::FailFromRound(KeyState& key, uint64_t round, const Failure& failure) {
  if (round >= key.refused_round) return;
  key.refused_round = round;
  key.refusal = Fail(failure.code, "round ", round, " cannot close, its push was refused: ", failure.message);
  std::vector<PartOpPtr> in_vain;
  for (const PartSequencer& sequencer : key.sequencers) {
    std::ranges::copy_if(sequencer.ops(), std::back_inserter(in_vain),
                         [&](const PartOpPtr& part) { return NeedsRound(*part->op, part->key_op(), round); });
  }
  for (const PartOpPtr& part : in_vain) {
    SplitUnfinished(part->op);
    FinishOperation(*part->op, *key.refusal);
  }
}

// Splits an operation on several keys, so that a failure of one key does not end the others.
void Client::SplitUnfinished(std::shared_ptr<Operation> op) {
  if (op->finished || op->keys.size() == 1) return;
  op->finished = true;
  size_t offset = 0;
  for (const auto& one : SplitPerKey(*op)) {
    KeyState& key = *Find(one->only().key);
    for (PartSequencer& sequencer : key.sequencers) {
      for (const PartOpPtr& part : sequencer.ops()) {
        if (part->op != op || part->finished) continue;
        part->op = one;
        part->key_index = 0;
        part->source.offset -= offset;
        ++one->parts_left;
      }
    }
    offset += one->source.size();
    if (one->parts_left > 0) {
      Open(one);
    } else {
      one->done(Status::Ok());
    }
  }
}

// A shard refuses a message as a whole and names one reason. Sent in separate messages, the valid operations
// succeed, and the others fail each with a reason of its own.
void Client::ResendSeparately(Time now, uint32_t shard, const PartOps& parts, NetworkRef network) {
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
    shards_[shard]->requests.Add(now, id, 0, std::move(batch));
  }
}

void Client::OnShardError(Time now, uint32_t shard, uint64_t id, const Failure& failure, NetworkRef network) {
  OutstandingRequests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;
  const PartOps parts = std::move(request->parts);
  shards_[shard]->requests.Erase(id);
  for (const PartOpPtr& part : parts) SplitUnfinished(part->op);
  if (parts.front()->op != parts.back()->op) {
    ResendSeparately(now, shard, parts, network);
  } else {
    for (const PartOpPtr& part : parts) {
      Operation& op = *part->op;
      FinishOperation(op, failure);
      if (op.IsPush()) FailFromRound(*Find(part->ref.key), part->round(), failure);
    }
  }
  std::erase_if(operations_, [](const auto& entry) { return entry.second->finished; });
}

void Client::OnShardWaiting(uint32_t shard, uint64_t id, const wire::StillWaiting& waiting) {
  OutstandingRequests::Request* request = shards_[shard]->requests.Find(id);
  if (request == nullptr) return;
  for (const PartOpPtr& part : request->parts) {
    if (Find(part->ref.key)->name.text() == waiting.id) part->op->waiting_for = waiting.missing;
  }
}

void Client::Repeat(Time now, uint32_t index, NetworkRef network) {
  Shard& shard = *shards_[index];
  for (const uint64_t id : shard.requests.Due(now)) {
    PartOps again, value_only;
    for (const PartOpPtr& part : shard.requests.Find(id)->parts) {
      if (part->finished) continue;
      // The shard has the push of an acknowledged part. Only its value is missing, and a Pull
      // without payload asks for that.
      (part->acked ? value_only : again).push_back(part);
    }
    if (!again.empty()) SendBatch(index, id, again, network);
    if (value_only.empty()) continue;
    wire::Pull pull{.parts = {}, .values = value_only.front()->op->compression.weights};
    for (const PartOpPtr& part : value_only) pull.parts.push_back({part->ref, part->op->slot, part->round()});
    network.Send(shard.peer, Envelope(std::move(pull), id));
  }
}

void Client::Finish(const PartOpPtr& part) {
  part->finished = true;
  ReleaseInFlight(*part);
  PartSequencer& sequencer = Find(part->ref.key)->sequencers[part->ref.part];
  sequencer.DropFinished();
  Release(sequencer);
  Operation& op = *part->op;
  if (op.finished) return;
  QueueCallback(op.keys[part->key_index].callback, Status::Ok());  // only keys of one part have a callback
  if (--op.parts_left > 0) return;
  if (!op.kept.empty()) DeliverAll(op);
  FinishOperation(op, Status::Ok());
  operations_.erase(op.number);
}

void Client::DeliverAll(Operation& op) {
  KeyState& key = *Find(op.only().key);
  if (!key.views) key.views.emplace(records_);
  bytes_copied_ += DeliverKept(op, key.parts, key.entry.spec.dtype, *key.views);
}

// Makes the parts of a push_pull that are not acknowledged a plain push, since the round of the other
// workers needs it although this caller no longer waits for the value. From now on the caller may write to
// the source, so the new operation gets a copy.
void Client::DetachPush(const std::shared_ptr<Operation>& op) {
  std::shared_ptr<Operation> push;
  ForPartsOf(*op, [&](PartOp& part) {
    if (part.acked) return;
    if (push == nullptr) {
      push = std::allocate_shared<Operation>(MemoryOf<Operation>(records_), records_);
      for (const PerKeyOp& key_op : op->keys)
        push->keys.push_back({.key = key_op.key, .round = key_op.round, .destination = {}});
      push->priority = op->priority;
      push->samples = op->samples;
      push->divisor = op->divisor;
      push->exponent = op->exponent;
      push->compression = op->compression;
      push->opened = op->opened;
      push->source = Frame::Copy(op->source.bytes());
      Open(push);
    }
    part.op = push;
    ++push->parts_left;
  });
}

void Client::QueueCallback(Callback& end, const Status& status) {
  if (!end) return;
  completions_.push_back(
      [end = std::exchange(end, nullptr), how = Status(status)](Time, NetworkRef) mutable { end(how); });
}

void Client::FinishOperation(Operation& op, const Status& status) {
  if (op.finished) return;
  op.finished = true;
  op.source = Frame();
  op.kept.clear();
  for (PerKeyOp& key_op : op.keys) QueueCallback(key_op.callback, status);
  QueueCallback(op.done, status);
  if (status.ok()) return;
  // The rest of a failed operation must not block later operations on the same parts.
  ForPartsOf(op, [&](PartOp& part) {
    part.finished = true;
    ReleaseInFlight(part);
  });
  for (const PerKeyOp& key_op : op.keys) {
    KeyState* key = Find(key_op.key);
    if (key == nullptr) continue;
    for (PartSequencer& sequencer : key->sequencers) {
      sequencer.DropFinished();
      Release(sequencer);
    }
  }
}

}  // namespace sluice::worker
