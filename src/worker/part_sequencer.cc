#include "worker/part_sequencer.h"

namespace sluice::worker {

PartOps PartSequencer::Release() {
  PartOps ready;
  bool first = true, answer_pending = false;
  for (const PartOpPtr& op : ops_) {
    if (op->finished) continue;
    if (op->HasPayload() && answer_pending) break;
    if (op->op->IsExclusive() && !first) break;
    first = false;
    if (op->WantsAnswer()) answer_pending = true;
    if (!op->released) ready.push_back(op);
    op->released = true;
    if (op->op->IsExclusive()) break;
  }
  return ready;
}

void PartSequencer::DropFinished() {
  ops_.EraseIf([](const PartOpPtr& op) { return op->finished; });
}

PartOps PartSequencer::AnsweredBy(const wire::ValuePart& value, const wire::Values& of,
                                  uint64_t request) const {
  PartOps answered;
  for (const PartOpPtr& op : ops_) {
    if (op->finished || !op->sent || op->op->slot != value.slot) continue;
    if (op->op->kind == OpKind::kAwaitSet) {  // a version does not say whether worker 0 has set the weight
      if (op->request == request) answered.push_back(op);
      continue;
    }
    if (value.slot == 0 && value.version < op->round()) continue;
    if (!op->WantsAnswer()) {
      if (op->op->IsPush() && op->request == request) answered.push_back(op);
      continue;
    }
    // A value in another encoding is not the one that was asked for.
    if (op->WantsValue() && (!of.has_data || of.compression != op->op->compression.weights)) continue;
    // The answer to another pull of rows has other rows.
    if (op->op->kind == OpKind::kPullRows && op->request != request) continue;
    // A pull that names no version wants the newest value; a late answer to an earlier request may be older.
    if ((value.slot > 0 || op->round() == 0) && request < op->request) continue;
    answered.push_back(op);
  }
  return answered;
}

}  // namespace sluice::worker
