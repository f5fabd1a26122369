// The functions of this file pull and store whole tables of row-sparse keys: the list of rows, their
// states, and rows that are set. They wait for the servers. The results are exact when no worker pushes the
// key meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/states_file.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

// Returns the ids of the rows on all servers after this worker's last round, in ascending order.
std::vector<int64_t> RowIds(const StoreContext& context, const StoreKey& key);
kvstore::KeyStates PullTableStates(const StoreContext& context, const StoreKey& key,
                                   const Optimizer& optimizer);
void StoreTableStates(const StoreContext& context, const StoreKey& key, const kvstore::KeyStates& states);
// Stores states of the rows, or with slot 0 their weights, from `from`.
void StoreRows(const StoreContext& context, const StoreKey& key, uint32_t slot, uint64_t num_updates,
               std::span<const int64_t> ids, const std::byte* from);

}  // namespace sluice::worker
