#include "worker/connection/send_queue.h"

#include <algorithm>

namespace sluice::worker {

void SendQueue::Add(PartOpPtr op) {
  Line& line = lines_.try_emplace(-op->op->priority, records_).first->second;
  line.parts.push_back(std::move(op));
  ++size_;
  for (size_t i = line.parts.size() - 1; i > line.gone && line.parts[i]->order < line.parts[i - 1]->order;
       --i)
    std::swap(line.parts[i], line.parts[i - 1]);
}

PartOpPtr SendQueue::Take() {
  const auto first = lines_.begin();
  Line& line = first->second;
  PartOpPtr taken = std::move(line.parts[line.gone++]);
  --size_;
  if (line.gone == line.parts.size()) {
    lines_.erase(first);
  } else if (constexpr size_t kMany = 64; line.gone >= kMany && line.gone * 2 >= line.parts.size()) {
    line.parts.erase(line.parts.begin(), line.parts.begin() + static_cast<ptrdiff_t>(line.gone));
    line.gone = 0;
  }
  return taken;
}

bool SendQueue::CanShareMessage(const PartOp& a, const PartOp& b) {
  return a.op->kind == b.op->kind && a.op->samples == b.op->samples && a.op->divisor == b.op->divisor &&
         a.op->compression.type == b.op->compression.type &&
         a.op->compression.weights == b.op->compression.weights && a.op->exponent == b.op->exponent &&
         (a.op->kind != OpKind::kPullRows || a.op == b.op);
}

PartOps SendQueue::NextBatch(size_t most_bytes, size_t most_of_one_pull) {
  PartOps batch;
  size_t bytes = 0;
  while (!empty()) {
    const PartOpPtr& next = Front(lines_.begin()->second);
    if (next->finished) {
      Take();
      continue;
    }
    const bool one_pull = !batch.empty() && !next->HasPayload() && next->op == batch.back()->op &&
                          next->op->keys.size() == 1 && next->op->kind != OpKind::kPullRows &&
                          (next->op->one_state || bytes + next->bytes() <= most_of_one_pull);
    if (!batch.empty() && !one_pull &&
        (!CanShareMessage(*batch.front(), *next) || bytes + next->bytes() > most_bytes ||
         batch.size() >= kBatchParts)) {
      break;
    }
    bytes += next->bytes();
    batch.push_back(Take());
  }
  return batch;
}

}  // namespace sluice::worker
