// Closes rounds: once all live workers have pushed a part (sync modes), or all parts of one worker's push
// have come (async modes), the weights are updated, or their updates queued.
//
// Rounds of a part close in order. Then the part's version names the new weight, although the update may
// still wait in the UpdateQueue, which has to run before anybody reads that weight. Thread safety: one
// thread, that of the shard's loop.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include "server/aggregate/aggregator.h"
#include "server/job_workers.h"
#include "server/keys/shard_keys.h"
#include "server/update/update_queue.h"

namespace sluice::server {

class RoundCloser {
 public:
  // All arguments must outlive this object. `cache_bytes`: with more bytes of weights than this, updates use
  // non-temporal stores.
  RoundCloser(const ShardKeys& keys, const JobWorkers& workers, const Aggregator& aggregator,
              UpdateQueue& updates, size_t cache_bytes)
      : keys_(keys),
        workers_(workers),
        aggregator_(aggregator),
        updates_(updates),
        cache_bytes_(cache_bytes) {}

  // Sync modes: closes all rounds of the part that are complete, and those of the key's other parts that
  // waited for it. Calls `closed(part)` for each part of a round after it has closed, and before the next one
  // closes.
  template <typename Closed>
  void CloseRounds(ShardKey& key, ShardPart& part, Closed&& closed) {
    size_t together = CloseRoundsOf(key, part, closed);
    if (together == 0) return;
    // Where all parts of a key close together, this part may have been the last one that the others waited
    // for.
    for (bool again = together > 1; std::exchange(again, false);)
      for (ShardPart& other : key.parts) again |= CloseRoundsOf(key, other, closed) > 0;
    LogClosed(key);
  }
  // Async modes: applies those of a worker's pushes of which all parts have come, in the order of the
  // worker's rounds. Returns their number.
  size_t ApplyStaged(ShardKey& key, ShardKey::WorkerPushes& pushes);

 private:
  // Closes the complete rounds of the part. Returns how many parts have closed a round together, at most.
  template <typename Closed>
  size_t CloseRoundsOf(ShardKey& key, ShardPart& part, Closed& closed) {
    size_t together = 0;
    for (std::span<ShardPart> parts; !(parts = CloseNext(key, part)).empty();) {
      together = std::max(together, parts.size());
      for (ShardPart& one : parts) closed(one);
    }
    return together;
  }
  // Closes the part's next round if it is complete. Returns the parts that have closed it: the part alone, or
  // all of the key (ShardKeys::PartsClosingWith).
  std::span<ShardPart> CloseNext(ShardKey& key, ShardPart& part);
  // Updates the parts from their rounds in ShardPart::closed. UpdateArrays is for keys that have no rows.
  void Update(ShardKey& key, std::span<ShardPart> parts);
  void UpdateArrays(ShardKey& key, const UpdateRule& rule, std::span<ShardPart> parts);
  void LogClosed(ShardKey& key) const;

  const ShardKeys& keys_;
  const JobWorkers& workers_;
  const Aggregator& aggregator_;
  UpdateQueue& updates_;
  const size_t cache_bytes_;
};

}  // namespace sluice::server
