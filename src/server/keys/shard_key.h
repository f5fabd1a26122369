// The parts of one key on this shard, and for async keys the pushes of which some parts have not arrived yet.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/plan/placement.h"
#include "server/keys/shard_part.h"

namespace sluice::server {

struct ShardKey {
  wire::KeyEntry entry;
  std::optional<plan::RowPlaces> places;  // row-sparse keys only
  std::vector<plan::Part> all_parts;      // all parts of the key, by part number
  std::vector<ShardPart> parts;           // the parts on this shard, in ascending order
  std::map<uint32_t, size_t> local;       // part number -> index in `parts`
  size_t initialised_parts = 0;           // number of initialised entries of `parts`
  bool awaits_set = false;  // some request may wait for worker 0 to set a part (PendingRequest::awaits_set)
  uint64_t reported_round = 0;  // the last round in the log, which all parts here have closed

  // In async modes a push is applied when all its parts on this shard have arrived, in
  // the order of the worker's rounds.
  struct StagedPush {
    std::vector<std::optional<Contribution>> parts;  // by local index
    size_t arrived = 0;                              // number of parts that have arrived
  };
  struct WorkerPushes {
    uint64_t applied = 0;           // number of rounds applied
    std::deque<StagedPush> staged;  // staged[i] is round applied + 1 + i
  };
  std::map<uint32_t, WorkerPushes> pushes;  // by worker rank
  // Async modes: for each worker with pinned answers (PendingRequest::pinned), the one state that they all
  // show. Requests of this worker for a later state wait until these answers have been sent. The pending
  // requests own the states.
  std::map<uint32_t, std::weak_ptr<const uint64_t>> pinned;

  ShardPart* Find(uint32_t part) {
    const auto it = local.find(part);
    return it == local.end() ? nullptr : &parts[it->second];
  }
  // The version with which a pull's min_version is compared: sync: the part's; async: the number of rounds of
  // worker `rank` that have been applied to the key.
  uint64_t VersionFor(const ShardPart& part, uint32_t rank) const {
    if (!async()) return part.version;
    const auto it = pushes.find(rank);
    return it == pushes.end() ? 0 : it->second.applied;
  }
  bool async() const { return entry.mode == wire::SyncMode::kAsync; }
};

}  // namespace sluice::server
