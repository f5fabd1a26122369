#include "server/job_workers.h"

namespace sluice::server {

void JobWorkers::Set(const std::vector<wire::NodeInfo>& roster) {
  incarnations_.clear();
  live_.clear();
  count_ = 0;
  worker_0_left_ = false;
  for (const wire::NodeInfo& node : roster) {
    if (node.role != wire::Role::kWorker) continue;
    ++count_;
    worker_0_left_ |= node.rank == 0 && node.state == wire::NodeState::kFinished;
    if (node.state == wire::NodeState::kDead) continue;
    incarnations_[node.rank] = node.incarnation;
    if (node.state == wire::NodeState::kAlive) live_.insert(node.rank);
  }
}

bool JobWorkers::IsMember(const wire::Sender& sender) const {
  if (sender.role != wire::Role::kWorker) return false;
  const auto it = incarnations_.find(sender.rank);
  return it != incarnations_.end() && it->second == sender.incarnation;
}

}  // namespace sluice::server
