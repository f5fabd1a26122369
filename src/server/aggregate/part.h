// One part on its shard: its weight, the pushes for rounds that have not closed yet, and the
// requests that wait for a version.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/inline_vector.h"
#include "kvstore/rows/row_table.h"
#include "kvstore/update/exact_sum.h"
#include "kvstore/update/update.h"
#include "server/reply/reply_batcher.h"
#include "server/update/versioned_weight.h"
#include "transport/transport.h"

namespace sluice::server {

using kvstore::MeasurePart;
using kvstore::SlotBytes;
using kvstore::UpdateInput;
using kvstore::UpdatePart;
using kvstore::UpdateRule;
using kvstore::ValidateRule;

// How long a push may stay in leased memory of the worker that sent it. The worker cannot
// write there meanwhile and may be waiting to. The time is a few training steps; after it
// the cost of a copy is negligible.
inline constexpr Duration kMaxLeaseTime = 50ms;

// In a job with more workers than this, a round does not keep all its pushes until it closes: whenever it
// has kept this many they are added up.
inline constexpr uint32_t kMostKept = 32;
// Bytes of freed sums that a shard keeps for the next rounds.
inline constexpr size_t kKeptSums = size_t{256} << 20;

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

// The pushes of one round of a part (sync modes), by worker rank. A round is complete when every live worker
// has pushed; the number of pushes does not matter.
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
  // Adds the rest as SumKept does and returns the sum of the whole round, valid until Clear. Call it once.
  const std::byte* TakeSum(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
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
};

// A request that is answered later: a pull, or a push that wants the value. A part keeps one per worker,
// slot and form of the value (for rows one per request), and a repeat replaces the one before.
struct Waiter {
  // Whether both wait for the same value in the same form, on behalf of the same worker.
  bool AsksFor(const Waiter& other) const {
    return rank == other.rank && slot == other.slot && want_data == other.want_data &&
           awaits_set == other.awaits_set && as == other.as;
  }

  uint32_t rank = 0;
  uint32_t slot = 0;
  uint64_t min_version = 0;
  bool want_data = true;
  // The request waits for worker 0 to set the weight: in sync modes the weight of version min_version, in
  // async modes until worker 0 has set it min_version times.
  bool awaits_set = false;
  transport::PeerId peer;
  uint64_t request_id = 0;
  Compression as = Compression::kNone;             // encoding in which the weight is wanted
  size_t share = ReplyBatcher::kMostMessageBytes;  // most bytes of values in one message of the answer
  Frame ids = {};                                  // row-sparse keys: ids of the rows that are wanted
  // The value is available, but the answer is deferred until the peer has room.
  bool deferred = false;
  // The value of a deferred answer for an async key of several parts: all
  // parts of a pull must show one state.
  struct Pinned {
    Frame value;
    uint64_t version = 0;                   // the version that the answer names
    std::shared_ptr<const uint64_t> state;  // the part's version; one object per state (Key::pinned)
  };
  std::optional<Pinned> pinned = std::nullopt;
  Time next_status_at = Time::max();  // time of the next status message (StillWaiting)
  Duration pause{};                   // the time between the last status message and the next one
};

struct Part {
  wire::PartRef ref;
  int64_t offset = 0;
  size_t length = 0;

  bool initialised = false;
  uint64_t version = 0;  // number of rounds (async: pushes) applied
  // By slot: the request that stored it last. A late repeat of a store must not undo the updates since then.
  struct Request {
    uint64_t incarnation = 0;
    uint64_t id = 0;
  };
  std::map<uint32_t, Request> stored_by;
  static constexpr uint32_t kWeight = UINT32_MAX;  // key of stored_by for the weight
  // Whether `by` is newer than the last request that stored the slot; if so it becomes the last one.
  bool AcceptIfNewer(uint32_t slot, Request by);
  uint64_t sets = 0;                    // how often worker 0 has set the weight outside a round
  std::optional<uint64_t> set_version;  // the version for which it was set last
  int64_t num_updates = 0;              // the optimiser's updates; saved and loaded together with its states
  std::optional<VersionedWeight> weight;
  kvstore::States states;
  std::unique_ptr<kvstore::RowTable> rows;  // row-sparse keys: in place of `weight` and `states`

  std::deque<Round> rounds;   // rounds[i] is round version + 1 + i; sync modes only
  Round closed;               // the last round closed; a new round reuses its memory
  bool update_waits = false;  // the update of `closed` waits in the UpdateQueue
  std::vector<Waiter> waiters;

  size_t num_states() const { return rows != nullptr ? rows->num_states() : states.arrays.size(); }
  // The waiter that `waiter` would replace: one that asks for the same (AsksFor), and is pinned if and only
  // if `waiter` is. A pull of rows replaces only a waiter of the same request. Null: none.
  Waiter* FindEquivalent(const Waiter& waiter);
  // Replaces the equivalent waiter, or appends. A repeat of the same request keeps the
  // time of the next status message.
  void AddWaiter(Waiter waiter);
};

}  // namespace sluice::server
