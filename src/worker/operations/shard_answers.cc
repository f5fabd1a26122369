// ShardAnswers: what the shards answer becomes the end of parts and operations.
//
// The client's loop calls everything here. An answer may come late or twice, and values may answer other
// requests than the one they came for (PartSequencer::AnsweredBy), so each step first looks whether the
// part has finished.
#include "worker/operations/shard_answers.h"

#include <algorithm>

#include "base/log.h"
#include "worker/operations/validation.h"
#include "worker/pull/deliver.h"

namespace sluice::worker {

void ShardAnswers::Acknowledge(Time now, PartOp& part) {
  if (!std::exchange(part.acked, true) && part.op->IsPush())
    tracer_.OnStage(now, Stage::kWait, part.ref.key, part.round(), part.bytes());
  connections_.ReleaseInFlight(part);
}

void ShardAnswers::OnAck(Time now, uint32_t shard, uint64_t id) {
  const PartOps* parts = connections_[shard].OnArrival(now, id);
  if (parts == nullptr) return;  // a late answer: the request has ended
  for (const PartOpPtr& part : *parts) {
    if (part->finished || !part->HasPayload()) continue;
    Acknowledge(now, *part);
    if (!part->WantsAnswer()) open_.FinishPart(part);
  }
  connections_[shard].EndIfFinished(id);
}

void ShardAnswers::OnValues(Time now, uint32_t shard, const wire::Message& message) {
  const auto& values = std::get<wire::Values>(message.body);
  for (size_t i = 0; i < values.parts.size(); ++i) {
    const wire::ValuePart& value = values.parts[i];
    DeclaredKey* key = keys_.Find(value.ref.key);
    if (key == nullptr || value.ref.part >= key->sequencers.size() ||
        key->parts[value.ref.part].shard != shard) {
      LOG_EVERY_N(WARNING, 100) << "shard " << shard
                                << " sent a value of a part that is not its own: " << wire::Describe(message);
      continue;
    }
    PartSequencer& sequencer = key->sequencers[value.ref.part];
    if (value.slot == 0) sequencer.version = std::max(sequencer.version, value.version);
    connections_[shard].OnProgress(now, message.in_reply_to);
    for (const PartOpPtr& part : sequencer.AnsweredBy(value, values, message.in_reply_to)) {
      if (!part->WantsAnswer()) Acknowledge(now, *part);
      if (part->WantsValue()) {
        if (!Fits(*part, message.payload[i], values.compression)) {
          LOG_EVERY_N(WARNING, 100) << "shard " << shard << " sent " << message.payload[i].size()
                                    << " bytes for a part of " << part->destination.bytes;
          continue;
        }
        tracer_.OnStage(now, Stage::kDeliver, value.ref.key, value.version, part->destination.bytes);
        open_.CountCopied(Deliver(*part, message.payload[i], values.compression, key->parts.size(),
                                  keys_.weight_bytes() > cache_bytes_));
      }
      part->op->version = std::min(part->op->version, value.version);
      open_.FinishPart(part);
    }
    connections_.Release(sequencer);
  }
  connections_[shard].EndIfFinished(message.in_reply_to);
}

void ShardAnswers::FailFromRound(DeclaredKey& key, uint64_t round, const Failure& failure) {
  if (round >= key.refused_round) return;
  key.refused_round = round;
  key.refusal = Fail(failure.code, "round ", round, " cannot close, its push has failed: ", failure.message);
  std::vector<PartOpPtr> in_vain;
  for (const PartSequencer& sequencer : key.sequencers) {
    std::ranges::copy_if(sequencer.ops(), std::back_inserter(in_vain),
                         [&](const PartOpPtr& part) { return NeedsRound(*part->op, part->key_op(), round); });
  }
  for (const PartOpPtr& part : in_vain) {
    open_.SplitUnfinished(part->op);
    open_.Finish(*part->op, *key.refusal);
  }
}

// A shard refuses a message as a whole and names one reason. Sent in separate messages, the valid
// operations succeed, and the others fail each with a reason of its own.
void ShardAnswers::ResendSeparately(Time now, uint32_t shard, const PartOps& parts,
                                    transport::Network& network) {
  for (auto first = parts.begin(); first != parts.end();) {
    const auto last =
        std::find_if(first, parts.end(), [&](const auto& part) { return part->op != (*first)->op; });
    PartOps batch;
    std::copy_if(first, last, std::back_inserter(batch), [](const auto& part) { return !part->finished; });
    first = last;
    if (batch.empty()) continue;
    connections_[shard].SendSeparately(now, std::move(batch), network);
  }
}

void ShardAnswers::OnError(Time now, uint32_t shard, uint64_t id, const Failure& failure,
                           transport::Network& network) {
  const PartOps parts = connections_[shard].TakeRequest(id);
  if (parts.empty()) return;
  for (const PartOpPtr& part : parts) open_.SplitUnfinished(part->op);
  if (parts.front()->op != parts.back()->op) {
    ResendSeparately(now, shard, parts, network);
  } else {
    for (const PartOpPtr& part : parts) {
      Operation& op = *part->op;
      open_.Finish(op, failure);
      if (op.IsPush()) FailFromRound(*keys_.Find(part->ref.key), part->round(), failure);
    }
  }
  open_.EraseFinished();
}

void ShardAnswers::OnWaiting(uint32_t shard, uint64_t id, const wire::StillWaiting& waiting) {
  const PartOps* parts = connections_[shard].PartsOf(id);
  if (parts == nullptr) return;
  for (const PartOpPtr& part : *parts) {
    if (keys_.Find(part->ref.key)->name.text() == waiting.id) part->op->waiting_for = waiting.missing;
  }
}

}  // namespace sluice::worker
