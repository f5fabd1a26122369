// Writes what a worker stores into a part: a weight, rows, or a state of the optimiser. The message has
// passed ValidateStore. A request that comes again, later than a newer one, writes nothing
// (ShardPart::AcceptIfNewer). Thread safety: the shard's loop.
#pragma once

#include "server/keys/shard_keys.h"

namespace sluice::server {

// Worker 0 sets the weight outside a round, for `version`. Returns false when that comes too late: the
// version is no longer the current one, and a later round has started from the weight as it was.
bool SetWeight(const ShardKey& key, ShardPart& part, uint64_t version, const Frame& value,
               ShardPart::StoreRequest by);
// Loads state `state.slot` of the part, from `frame`, and the number of updates; for slot 0 that number
// alone.
void StoreState(ShardPart& part, const wire::StorePart& state, const Frame& frame,
                ShardPart::StoreRequest by);
// Stores the weights of the rows in `frame` (kvstore/rows/row_frame.h).
void StoreRows(ShardPart& part, const Frame& frame, ShardPart::StoreRequest by);

}  // namespace sluice::server
