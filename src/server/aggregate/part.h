// One part on its shard: its weight, the pushes that came for rounds not yet closed, and who waits for which
// version.
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
#include "kvstore/rows/table.h"
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

// How long a push may be kept in the memory of the worker that sent it, which cannot write there meanwhile
// and perhaps waits to: some training steps, after which a copy costs nothing that matters.
inline constexpr Duration kMaxLeaseTime = 50ms;

// Of more workers than this the pushes of a round are not all kept until it closes: so many at once are added
// up as they come.
inline constexpr uint32_t kMostKept = 32;
inline constexpr size_t kKeptSums = size_t{256}
                                    << 20;  // bytes of a shard's sums that wait for the next round

// One worker's push of one part for one round, as it came.
struct Contribution {
  compression::Encoded encoded() const { return {gradient.data(), gradient.size(), compression, scale}; }
  // When the sender is to have its memory back; never where it is not the sender's.
  Time return_at() const { return gradient.leased() ? came + kMaxLeaseTime : Time::max(); }
  // Copies the gradient when that time has come. When it will.
  Time ReturnLease(Time now) {
    if (now >= return_at()) gradient = gradient.ToOwned();
    return return_at();
  }

  Frame gradient;  // none any more once it was added up
  uint64_t samples = 0;
  double divisor = 1;
  Compression compression = Compression::kNone;
  Time came{};
  float scale = 1;  // 2^exponent of the push
};

// What a round adds up.
using Gradients = InlineVector<compression::Encoded, 4>;

// The pushes of one round, by worker rank. In sync modes a round of a part; it closes on the set of live
// workers, never on a count.
class Round {
 public:
  bool Has(uint32_t rank) const { return rank < by_rank_.size() && by_rank_[rank].has_value(); }
  // A second contribution of one worker counts twice: whoever must not let that happen asks Has() first.
  void Add(uint32_t rank, Contribution contribution);
  bool Complete(const std::set<uint32_t>& live) const;
  // The frames kept, in rank order, and what they are to be scaled by.
  Gradients gradients() const;
  size_t kept() const { return kept_; }
  // Adds up what is kept, of `elements` each, and keeps it no longer; the sum lies in `memory`. Its bits do
  // not depend on when that happens.
  void SumKept(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  // The same for what is left of the round: the sum of all of it; once.
  const std::byte* TakeSum(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  uint64_t samples() const;
  // The divisor that the first push of the round named; others must agree.
  std::optional<double> divisor() const;
  bool HasLeased() const;  // some of its frames are memory of those who sent them
  // Copies what is due to be returned. When the next one is.
  Time ReturnLeases(Time now);
  std::vector<uint32_t> Missing(const std::set<uint32_t>& live) const;
  // As a new one, which keeps its room.
  void Clear();

 private:
  kvstore::ExactSum& SumOf(DType dtype, size_t elements, const std::shared_ptr<Allocator>& memory);
  void DropKept();

  std::vector<std::optional<Contribution>> by_rank_;
  std::vector<Contribution> doubled_;
  size_t kept_ = 0;
  std::unique_ptr<kvstore::ExactSum> sum_;
};

// A pull, or a push that wants the value: one per worker, slot and form, of rows one per request; a repeat
// takes the place of the one before.
struct Waiter {
  // Other forms of a value answer nobody who asked for this one.
  bool AsksFor(const Waiter& other) const {
    return rank == other.rank && slot == other.slot && want_data == other.want_data &&
           of_set == other.of_set && as == other.as;
  }

  uint32_t rank = 0;
  uint32_t slot = 0;
  uint64_t min_version = 0;
  bool want_data = true;
  bool of_set = false;  // waits for worker 0 to set the weight: in min_version, async: so often
  transport::PeerId peer;
  uint64_t request_id = 0;
  Compression as = Compression::kNone;  // how the weight is to come
  size_t share = ReplyBatcher::kShare;  // bytes that values for its request may have in one message
  Frame ids = {};                       // of the rows wanted, where the key is row-sparse
  // What it waits for is there, but its answer is put off until its peer has room.
  bool deferred = false;
  // Holds what the answer will be, for an async key of several parts: all parts of a pull show one state.
  struct Pinned {
    Frame value;
    uint64_t version = 0;                   // told to the worker
    std::shared_ptr<const uint64_t> state;  // which one: the part's version (Key::pinned)
  };
  std::optional<Pinned> pinned = std::nullopt;
  // When it hears next for whom it waits, and how long after that again.
  Time next_status_at = Time::max();
  Duration pause{};
};

struct Part {
  wire::PartRef ref;
  int64_t offset = 0;
  size_t length = 0;

  bool initialised = false;
  uint64_t version = 0;  // rounds (async: pushes) applied
  // By slot, the request that stored it last: a repeat that comes late must not undo what was learned since.
  struct Request {
    uint64_t incarnation = 0;
    uint64_t id = 0;
  };
  std::map<uint32_t, Request> stored_by;
  static constexpr uint32_t kWeight = UINT32_MAX;  // in place of a slot
  bool IsNewer(uint32_t slot, Request by);         // then it is the last
  // Weights that worker 0 has set in no round: how many, and the version that the last one is of.
  uint64_t sets = 0;
  std::optional<uint64_t> set_version;
  int64_t num_updates = 0;  // updates of the optimiser, which outlive a restart together with its states
  std::optional<VersionedWeight> weight;
  kvstore::States states;
  std::unique_ptr<kvstore::RowTable> rows;  // of a row-sparse key, in place of both

  std::deque<Round> rounds;   // rounds[i] is round version + 1 + i; sync only
  Round closed;               // whose room the next one gets
  bool update_waits = false;  // by `closed`: see UpdateQueue
  std::vector<Waiter> waiters;

  size_t num_states() const { return rows != nullptr ? rows->num_states() : states.arrays.size(); }
  // Who waits for the same, whose place `waiter` would take: what this worker waited for before. Pulls of
  // rows wait beside each other, and what is pinned beside what is not. Null: nobody.
  Waiter* FindEquivalent(const Waiter& waiter);
  // In its place, or beside all others. A repeat of the same request keeps its time of the next word.
  void AddWaiter(Waiter waiter);
};

}  // namespace sluice::server
