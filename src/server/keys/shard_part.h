// One part of a key on its shard: its weight, the pushes for rounds that have not closed yet, and the pending
// requests. A plain value, which the shard uses on its loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/rows/row_table.h"
#include "kvstore/update/states.h"
#include "server/keys/pending_request.h"
#include "server/keys/round.h"
#include "server/keys/versioned_weight.h"
#include "wire/messages.h"

namespace sluice::server {

struct ShardPart {
  wire::PartRef ref;
  int64_t offset = 0;
  size_t length = 0;

  bool initialised = false;
  uint64_t version = 0;  // number of rounds (async: pushes) applied
  // By slot: the request that stored it last. A late repeat of a store must not undo the updates since then.
  struct StoreRequest {
    uint64_t incarnation = 0;
    uint64_t id = 0;
  };
  std::map<uint32_t, StoreRequest> stored_by;
  static constexpr uint32_t kWeight = UINT32_MAX;  // key of stored_by for the weight
  // Whether `by` is newer than the last request that stored the slot; if so it becomes the last one.
  bool AcceptIfNewer(uint32_t slot, StoreRequest by);
  uint64_t sets = 0;                    // how often worker 0 has set the weight outside a round
  std::optional<uint64_t> set_version;  // the version for which it was set last
  int64_t num_updates = 0;              // the optimiser's updates; saved and loaded together with its states
  std::optional<VersionedWeight> weight;
  kvstore::States states;
  std::unique_ptr<kvstore::RowTable> rows;  // row-sparse keys: in place of `weight` and `states`

  std::deque<Round> rounds;   // rounds[i] is round version + 1 + i; sync modes only
  Round closed;               // the last round closed, or the last async push; a new round reuses its memory
  bool update_waits = false;  // the update of `closed` waits in the UpdateQueue
  std::vector<PendingRequest> pending;

  size_t num_states() const { return rows != nullptr ? rows->num_states() : states.arrays.size(); }
  // Returns the pending request that `request` would replace, or null: one that asks for the same (AsksFor),
  // and is pinned if and only if `request` is. A pull of rows replaces only its own repeat.
  PendingRequest* FindEquivalent(const PendingRequest& request);
  // Replaces the equivalent request, or appends. A repeat keeps the time of the next status message.
  void AddPending(PendingRequest request);
};

}  // namespace sluice::server
