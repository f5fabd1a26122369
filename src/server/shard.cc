#include "server/shard.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::server {

Status Shard::AddKeys(const std::vector<wire::KeyEntry>& entries) {
  for (const wire::KeyEntry& entry : entries) {
    if (Status status = ValidateRule(NewestRule(entry.spec.store), entry); !status) return status;
    if (entry.id < keys_.size() && keys_[entry.id] != nullptr) continue;  // announced again
    auto key = std::make_unique<Key>();
    key->entry = entry;
    if (entry.spec.rows) key->places = plan::PlacesOf(entry);
    key->all_parts = plan::PartsOf(entry);
    for (uint32_t i = 0; i < key->all_parts.size(); ++i) {
      const plan::Part& planned = key->all_parts[i];
      if (planned.shard != index()) continue;
      key->local[i] = key->parts.size();
      Part& part = key->parts.emplace_back();
      part.ref = {entry.id, i};
      part.offset = planned.offset;
      part.length = static_cast<size_t>(planned.length);
      if (!key->places) continue;
      part.rows = std::make_unique<kvstore::RowTable>(entry.spec);
      part.initialised = true;
      ++key->initialised_parts;
    }
    if (key->parts.empty()) continue;
    if (keys_.size() <= entry.id) keys_.resize(entry.id + 1);
    keys_[entry.id] = std::move(key);
  }
  return Status::Ok();
}

void Shard::SetMembership(uint32_t rank, uint64_t epoch, const std::vector<wire::NodeInfo>& roster,
                          transport::Network& network) {
  rank_ = rank;
  epoch_ = epoch;
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
  for (const auto& key : keys_) {
    if (key == nullptr) continue;
    if (!key->async()) {
      for (Part& part : key->parts) CloseRounds(*key, part);
    }
    FailUnsatisfiable(*key, network);
  }
  Flush(network);
}

std::string Shard::DumpState(Time) const {
  std::string text = StrCat("shard ", index(), ": epoch ", epoch_, ", ", live_.size(), " live workers\n");
  for (const auto& [name, value] : counters()) text += StrCat("  ", name, " ", value, "\n");
  constexpr size_t kShown = 100;
  size_t shown = 0;
  for (const auto& key : keys_) {
    if (key == nullptr) continue;
    for (const Part& part : key->parts) {
      if (part.rounds.empty() && part.waiters.empty()) continue;
      if (++shown > kShown) return text + "  ...\n";
      text += StrCat("  key ", wire::ToString(key->entry.spec), " part ", part.ref.part, " version ",
                     part.version);
      text += StrCat(", round ", part.version + 1, " waits for ", MissingText(*key, part));
      for (const Waiter& waiter : part.waiters)
        text += waiter.deferred
                    ? StrCat("; an answer to worker ", waiter.rank, " waits for room on its connection")
                    : StrCat("; worker ", waiter.rank, " waits for round ", waiter.min_version);
      text += "\n";
    }
  }
  return text;
}

}  // namespace sluice::server
