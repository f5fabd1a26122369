#include "server/shard.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::server {

void Shard::SetMembership(uint32_t rank, uint64_t epoch, const std::vector<wire::NodeInfo>& roster,
                          transport::Network& network) {
  rank_ = rank;
  epoch_ = epoch;
  keys_.SetShard(rank * options_.shards_per_server + options_.thread);
  incarnations_.clear();
  live_.clear();
  num_workers_ = 0;
  worker_0_left_ = false;
  for (const wire::NodeInfo& node : roster) {
    if (node.role != wire::Role::kWorker) continue;
    ++num_workers_;
    worker_0_left_ |= node.rank == 0 && node.state == wire::NodeState::kFinished;
    if (node.state == wire::NodeState::kDead) continue;
    incarnations_[node.rank] = node.incarnation;
    if (node.state == wire::NodeState::kAlive) live_.insert(node.rank);
  }
  for (ShardKey& key : keys_.all()) {
    if (!key.async()) {
      for (ShardPart& part : key.parts) CloseRounds(key, part);
    }
    FailUnsatisfiable(key, network);
  }
  Flush(network);
}

std::string Shard::DumpState(Time) const {
  std::string text =
      StrCat("shard ", keys_.shard(), ": epoch ", epoch_, ", ", live_.size(), " live workers\n");
  for (const auto& [name, value] : counters()) text += StrCat("  ", name, " ", value, "\n");
  constexpr size_t kShown = 100;
  size_t shown = 0;
  for (const ShardKey& key : keys_.all()) {
    for (const ShardPart& part : key.parts) {
      if (part.rounds.empty() && part.pending.empty()) continue;
      if (++shown > kShown) return text + "  ...\n";
      text += StrCat("  key ", wire::ToString(key.entry.spec), " part ", part.ref.part, " version ",
                     part.version);
      text += StrCat(", round ", part.version + 1, " waits for ", MissingText(key, part));
      for (const PendingRequest& waiter : part.pending)
        text += waiter.deferred
                    ? StrCat("; an answer to worker ", waiter.rank, " waits for room on its connection")
                    : StrCat("; worker ", waiter.rank, " waits for round ", waiter.min_version);
      text += "\n";
    }
  }
  return text;
}

}  // namespace sluice::server
