// The pushes of one round of a part, as they came. Plain values without a thread or a clock of their own: the
// shard that keeps them uses them on its loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/inline_vector.h"
#include "compression/codec.h"
#include "kvstore/update/exact_sum.h"

namespace sluice::server {

// How long a push may stay in leased memory of the worker that sent it. The worker cannot
// write there meanwhile and may be waiting to. The time is a few training steps; after it
// the cost of a copy is negligible.
inline constexpr Duration kMaxLeaseTime = 50ms;

// One worker's push of one part for one round, as it arrived.
struct Contribution {
  compression::Encoded encoded() const { return {gradient.data(), gradient.size(), compression, scale}; }
  // The time at which the lease is to be returned; Time::max() when the memory is not leased.
  Time return_at() const { return gradient.leased() ? arrived_at + kMaxLeaseTime : Time::max(); }
  // Replaces a leased gradient by a copy when return_at() has passed. Returns the new return_at().
  Time ReturnLease(Time now) {
    if (now >= return_at()) gradient = gradient.ToOwned();
    return return_at();
  }

  Frame gradient;  // empty once it has been added up
  uint64_t samples = 0;
  double divisor = 1;
  Compression compression = Compression::kNone;
  Time arrived_at{};  // time of arrival
  float scale = 1;    // 2^exponent of the push
};

// The addends of a round.
using Gradients = InlineVector<compression::Encoded, 4>;

// The pushes of one round of a part, by worker rank. A round is complete when every live worker has pushed;
// the number of pushes does not matter. In async modes each push is a round of its own, of rank 0.
class Round {
 public:
  bool Has(uint32_t rank) const { return rank < by_rank_.size() && by_rank_[rank].has_value(); }
  // A second contribution of the same worker counts twice; a caller that must
  // prevent this checks Has() first.
  void Add(uint32_t rank, Contribution contribution);
  bool Complete(const std::set<uint32_t>& live) const;
  // The gradients that are kept, in rank order.
  Gradients gradients() const;
  size_t kept() const { return kept_; }  // number of gradients that are kept
  // Adds the kept gradients, of `elements` elements each, to the round's sum in `memory` and drops them. The
  // bits of the sum do not depend on when this is called.
  void SumKept(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  // Adds the rest as SumKept does, and makes summed() the sum of the whole round. Call it once.
  void SumAll(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  // Valid until Clear; null: SumAll has not been called, and gradients() has all that is to be added.
  const std::byte* summed() const { return summed_; }
  uint64_t samples() const;
  // The divisor of the contribution with the lowest rank; all others must have the same one. Nullopt: none.
  std::optional<double> divisor() const;
  bool HasLeased() const;  // some gradients lie in the memory of the workers that sent them
  // Calls ReturnLease of all contributions. Returns the earliest time at which
  // another lease is to be returned.
  Time ReturnLeases(Time now);
  std::vector<uint32_t> Missing(const std::set<uint32_t>& live) const;
  // Makes the round as new, but keeps the memory of its lists.
  void Clear();

 private:
  kvstore::ExactSum& SumOf(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  void DropKept();

  std::vector<std::optional<Contribution>> by_rank_;
  std::vector<Contribution> doubled_;  // earlier contributions of ranks that have pushed more than once
  size_t kept_ = 0;
  std::unique_ptr<kvstore::ExactSum> sum_;  // null: nothing has been added up yet
  const std::byte* summed_ = nullptr;       // in the memory of sum_
};

}  // namespace sluice::server
