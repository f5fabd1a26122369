// Keeps the pushes that workers have made until the round of a part closes, or, in async modes, until all
// parts of a worker's push have come. The pushes lie in the parts (ShardPart::rounds) and keys
// (ShardKey::pushes); how long their leases last, and the memory for the sums of many workers, is this
// class's own.
//
// Thread safety: one thread, that of the shard's loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/pool_allocator.h"
#include "server/job_workers.h"
#include "server/keys/shard_keys.h"

namespace sluice::server {

// In a job with more workers than this, a round does not keep all its pushes until it closes: whenever it
// has kept this many they are added up.
inline constexpr uint32_t kMostKept = 32;

enum class Admission : uint8_t { kNew, kRepeat };

class Aggregator {
 public:
  // `keys` and `workers` must outlive this object. With `deduplicate` false, which tests use to see the
  // double count that follows, a second push of a worker counts as well.
  Aggregator(const ShardKeys& keys, const JobWorkers& workers, bool deduplicate)
      : keys_(keys), workers_(workers), deduplicate_(deduplicate) {}

  // Sync modes: keeps worker `rank`'s push of the part for `round`. A round that has closed, or that has the
  // worker's push, makes this a repeat, which is dropped. Fails with kResourceExhausted when the round is too
  // far ahead, with kInvalidArgument when another worker's push of the round has another divisor. No update
  // of the part may wait in the UpdateQueue (ShardPart::update_waits).
  Result<Admission> AdmitSync(uint32_t rank, ShardKey& key, ShardPart& part, uint64_t round,
                              Contribution&& contribution);
  // Async modes: the same with `pushes`, those of the worker (ShardKey::pushes). Divisors may differ.
  Result<Admission> AdmitAsync(ShardKey::WorkerPushes& pushes, ShardKey& key, ShardPart& part, uint64_t round,
                               Contribution&& contribution);
  // Sync modes: moves the part's next round, which must have come, from ShardPart::rounds to
  // ShardPart::closed, where the update reads it. If pushes of the key are added up early, the whole round
  // is. No update of the part may wait, as above.
  void MoveToClosed(const ShardKey& key, ShardPart& part) const;

  // Copies the gradients that have stayed for kMaxLeaseTime in the memory of the workers that sent them, and
  // thereby returns the leases.
  void ReturnLeases(Time now);
  // When ReturnLeases is to be called next; Time::max(): no gradient is leased.
  Time NextTimer() const { return next_return_; }

 private:
  void NoteReturn(Time at) { next_return_ = std::min(next_return_, at); }
  // Whether pushes of the key are added up before their round closes, so that memory does not grow with the
  // number of workers.
  bool SumsEarly(const ShardKey& key) const { return workers_.count() > kMostKept && !key.places; }

  // Bytes of freed sums that are kept for the next rounds.
  static constexpr size_t kKeptSums = size_t{256} << 20;

  const ShardKeys& keys_;
  const JobWorkers& workers_;
  const bool deduplicate_;
  Time next_return_ = Time::max();  // at or before the earliest Contribution::return_at
  // Memory for the sums of rounds (SumsEarly); the next round reuses what a round has freed.
  const std::shared_ptr<Allocator> sums_memory_ = std::make_shared<PoolAllocator>(kKeptSums);
};

}  // namespace sluice::server
