// Shard's aggregate step: keeps pushes until their round closes, and returns the leases
// of those that are kept for long.
#include "base/strings.h"
#include "server/shard.h"

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

void Shard::NoteLease(const Contribution& contribution) {
  next_return_ = std::min(next_return_, contribution.return_at());
}

void Shard::ReturnLeases(Time now) {
  if (now < next_return_) return;
  next_return_ = Time::max();
  const auto note = [&](Time next) { next_return_ = std::min(next_return_, next); };
  for (ShardKey& key : keys_.all()) {
    for (ShardPart& part : key.parts)
      for (Round& round : part.rounds) note(round.ReturnLeases(now));
    for (auto& [rank, pushes] : key.pushes)
      for (ShardKey::StagedPush& staged : pushes.staged)
        for (auto& contribution : staged.parts)
          if (contribution) note(contribution->ReturnLease(now));
  }
}

Result<Shard::Admission> Shard::AdmitSync(const Sender& sender, ShardKey& key, ShardPart& part,
                                          uint64_t round, Contribution contribution) {
  const auto index = RoundHorizonIndex(round, part.version, key.entry.spec);
  if (!index) return index.failure();
  if (!index.value()) return Admission::kRepeat;
  // The update of this part's last round has not run yet, and uses part.closed.
  if (part.update_waits) update_queue_.Run();
  while (part.rounds.size() <= *index.value()) {
    part.closed.Clear();  // an update that threw leaves its gradients here
    part.rounds.push_back(std::exchange(part.closed, {}));
  }
  Round& open = part.rounds[*index.value()];
  if (open.Has(sender.rank) && options_.deduplicate) return Admission::kRepeat;
  if (const auto divisor = open.divisor();
      divisor && *divisor != contribution.divisor && !keys_.RuleFor(key, round).normalizes_by_samples()) {
    return Fail(ErrorCode::kInvalidArgument, "push of key ", wire::ToString(key.entry.spec), " for round ",
                round, ": worker ", sender.rank, " divides by ", contribution.divisor, ", another worker by ",
                *divisor, "; the divisor must be the same on all workers (or use normalize_by_samples)");
  }
  open.Add(sender.rank, std::move(contribution));
  if (SumsEarly(key) && open.kept() >= kMostKept && !open.Complete(live_))
    open.SumKept(key.entry.spec.dtype, part.length, sums_memory_);
  CloseRounds(key, part);
  return Admission::kNew;
}

Result<Shard::Admission> Shard::AdmitAsync(const Sender& sender, ShardKey& key, ShardPart& part,
                                           uint64_t round, Contribution contribution) {
  ShardKey::WorkerPushes& pushes = key.pushes[sender.rank];
  const auto index = RoundHorizonIndex(round, pushes.applied, key.entry.spec);
  if (!index) return index.failure();
  if (!index.value()) return Admission::kRepeat;
  if (pushes.staged.size() <= *index.value()) pushes.staged.resize(*index.value() + 1);
  ShardKey::StagedPush& staged = pushes.staged[*index.value()];
  if (staged.parts.empty()) staged.parts.resize(key.parts.size());
  auto& place = staged.parts[key.local.at(part.ref.part)];
  if (place && options_.deduplicate) return Admission::kRepeat;
  if (!place) ++staged.arrived;
  place = std::move(contribution);
  ApplyStaged(key, pushes);
  return Admission::kNew;
}

}  // namespace sluice::server
