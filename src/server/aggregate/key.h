// One key's parts on this shard, and for async keys the pushes whose parts have not all come.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/plan/placement.h"
#include "server/aggregate/part.h"

namespace sluice::server {

struct Key {
  wire::KeyEntry entry;
  std::optional<plan::RowPlaces> places;  // of a row-sparse key
  std::vector<plan::Part> all_parts;      // of the whole key: index = part number
  std::vector<Part> parts;                // those of this shard, in order
  std::map<uint32_t, size_t> local;       // part number -> index in `parts`
  size_t initialised_parts = 0;
  bool awaits_set = false;      // some worker may wait for worker 0 to set a part
  uint64_t reported_round = 0;  // for the log: the last round that all parts here have closed

  // Async: a worker's push applies as a whole, in the order of its rounds.
  struct Staged {
    std::vector<std::optional<Contribution>> parts;  // by local index
    size_t arrived = 0;
  };
  struct WorkerPushes {
    uint64_t applied = 0;       // rounds applied
    std::deque<Staged> staged;  // staged[i] is round applied + 1 + i
  };
  std::map<uint32_t, WorkerPushes> pushes;  // by rank
  // Async: of each rank that has answers pinned (Waiter::pinned), the one state that they are of: what it
  // asks for in a later one waits until they have been sent. Theirs to keep.
  std::map<uint32_t, std::weak_ptr<const uint64_t>> pinned;

  Part* Find(uint32_t part) {
    const auto it = local.find(part);
    return it == local.end() ? nullptr : &parts[it->second];
  }
  bool async() const { return entry.mode == wire::SyncMode::kAsync; }
};

}  // namespace sluice::server
