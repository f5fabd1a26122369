#include "worker/push/send_queue.h"

namespace sluice::worker {

void SendQueue::Add(PartOpPtr op) {
  const std::pair place(-op->op->priority, op->order);
  queue_.emplace(place, std::move(op));
}

bool SendQueue::Together(const PartOp& a, const PartOp& b) {
  return a.op->kind == b.op->kind && a.op->samples == b.op->samples && a.op->divisor == b.op->divisor &&
         a.op->compression.type == b.op->compression.type &&
         a.op->compression.weights == b.op->compression.weights &&
         (a.op->kind != OpKind::kPullRows || a.op == b.op);
}

PartOps SendQueue::NextBatch(size_t most_bytes) {
  PartOps batch;
  size_t bytes = 0;
  while (!queue_.empty()) {
    const PartOpPtr& next = queue_.begin()->second;
    if (next->finished) {
      queue_.erase(queue_.begin());
      continue;
    }
    // A pull's parts of one operation stay together whatever their number: async shards answer one Pull from
    // one state.
    const bool one_pull = !batch.empty() && !next->Carries() && next->op == batch.back()->op &&
                          next->op->kind != OpKind::kPullRows;
    if (!batch.empty() && !one_pull &&
        (!Together(*batch.front(), *next) || bytes + next->bytes() > most_bytes ||
         batch.size() >= kBatchParts)) {
      break;
    }
    bytes += next->bytes();
    batch.push_back(next);
    queue_.erase(queue_.begin());
  }
  return batch;
}

}  // namespace sluice::worker
