#include "server/aggregate/aggregator.h"

#include <optional>
#include <utility>

#include "base/strings.h"

namespace sluice::server {
namespace {

// The index of `round` in a window that begins with the round after `closed`. Nullopt: the round has closed,
// so the push is a repeat. Fails with kResourceExhausted when the round is more than kMaxRoundsAhead ahead.
Result<std::optional<size_t>> RoundHorizonIndex(uint64_t round, uint64_t closed, const wire::KeySpec& spec) {
  if (round <= closed) return std::optional<size_t>();
  if (round - closed > plan::kMaxRoundsAhead) {
    return Fail(ErrorCode::kResourceExhausted, "push of key ", wire::ToString(spec), " for round ", round,
                ": the last closed is ", closed, ", and at most ", plan::kMaxRoundsAhead,
                " rounds ahead are kept");
  }
  return std::optional<size_t>(round - closed - 1);
}

}  // namespace

Result<Admission> Aggregator::AdmitSync(uint32_t rank, ShardKey& key, ShardPart& part, uint64_t round,
                                        Contribution&& contribution) {
  NoteReturn(contribution.return_at());
  const auto index = RoundHorizonIndex(round, part.version, key.entry.spec);
  if (!index) return index.failure();
  if (!index.value()) return Admission::kRepeat;
  while (part.rounds.size() <= *index.value()) {
    part.closed.Clear();  // an update that threw leaves its gradients here
    part.rounds.push_back(std::exchange(part.closed, {}));
  }
  Round& open = part.rounds[*index.value()];
  if (open.Has(rank) && deduplicate_) return Admission::kRepeat;
  if (const auto divisor = open.divisor();
      divisor && *divisor != contribution.divisor && !keys_.RuleFor(key, round).normalizes_by_samples()) {
    return Fail(ErrorCode::kInvalidArgument, "push of key ", wire::ToString(key.entry.spec), " for round ",
                round, ": worker ", rank, " divides by ", contribution.divisor, ", another worker by ",
                *divisor, "; the divisor must be the same on all workers (or use normalize_by_samples)");
  }
  open.Add(rank, std::move(contribution));
  if (SumsEarly(key) && open.kept() >= kMostKept && !open.Complete(workers_.live()))
    open.SumKept(key.entry.spec.dtype, part.length, sums_memory_);
  return Admission::kNew;
}

Result<Admission> Aggregator::AdmitAsync(ShardKey::WorkerPushes& pushes, ShardKey& key, ShardPart& part,
                                         uint64_t round, Contribution&& contribution) {
  NoteReturn(contribution.return_at());
  const auto index = RoundHorizonIndex(round, pushes.applied, key.entry.spec);
  if (!index) return index.failure();
  if (!index.value()) return Admission::kRepeat;
  if (pushes.staged.size() <= *index.value()) pushes.staged.resize(*index.value() + 1);
  ShardKey::StagedPush& staged = pushes.staged[*index.value()];
  if (staged.parts.empty()) staged.parts.resize(key.parts.size());
  auto& place = staged.parts[key.local.at(part.ref.part)];
  if (place && deduplicate_) return Admission::kRepeat;
  if (!place) ++staged.arrived;
  place = std::move(contribution);
  return Admission::kNew;
}

void Aggregator::MoveToClosed(const ShardKey& key, ShardPart& part) const {
  part.closed = std::move(part.rounds.front());
  part.rounds.pop_front();
  if (SumsEarly(key)) part.closed.SumAll(key.entry.spec.dtype, part.length, sums_memory_);
}

void Aggregator::ReturnLeases(Time now) {
  if (now < next_return_) return;
  next_return_ = Time::max();
  for (ShardKey* key : keys_.all()) {
    for (ShardPart& part : key->parts)
      for (Round& round : part.rounds) NoteReturn(round.ReturnLeases(now));
    for (auto& [rank, pushes] : key->pushes)
      for (ShardKey::StagedPush& staged : pushes.staged)
        for (auto& contribution : staged.parts)
          if (contribution) NoteReturn(contribution->ReturnLease(now));
  }
}

}  // namespace sluice::server
