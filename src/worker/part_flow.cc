#include "worker/part_flow.h"

namespace sluice::worker {

std::vector<PartOpPtr> PartFlow::Release() {
  std::vector<PartOpPtr> ready;
  bool answer_pending = false;
  for (const PartOpPtr& op : ops_) {
    if (op->finished) continue;
    if (op->Carries() && answer_pending) break;
    if (op->WantsAnswer()) answer_pending = true;
    if (op->released) continue;
    op->released = true;
    ready.push_back(op);
  }
  return ready;
}

void PartFlow::Sweep() {
  std::erase_if(ops_, [](const PartOpPtr& op) { return op->finished; });
}

std::vector<PartOpPtr> PartFlow::AnsweredBy(uint32_t slot, uint64_t version, bool has_data) const {
  std::vector<PartOpPtr> answered;
  for (const PartOpPtr& op : ops_) {
    if (op->finished || !op->sent || !op->WantsAnswer() || op->op->slot != slot) continue;
    if (op->WantsValue() && !has_data) continue;
    if (slot == 0 && version < op->op->round) continue;
    answered.push_back(op);
  }
  return answered;
}

}  // namespace sluice::worker
