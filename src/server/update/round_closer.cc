// RoundCloser: from the pushes of a round to the part's new weight.
//
// Update raises the versions of the parts first; what it reads of the gradients stays in ShardPart::closed
// until the update has run, at once or from the UpdateQueue, whose helpers then write the weight. Shard calls
// it on its loop: after each push that is new, and when the membership changes.
#include "server/update/round_closer.h"

#include <algorithm>

#include "base/inline_vector.h"
#include "base/log.h"
#include "kvstore/rows/update_rows.h"

namespace sluice::server {
namespace {

kvstore::UpdateInput InputOf(const ShardKey& key, const UpdateRule& rule, const ClosingRound& round,
                             uint32_t num_workers) {
  const ShardPart& part = *round.part;
  const double divisor = rule.normalizes_by_samples() ? static_cast<double>(round.samples) : round.divisor;
  return {.spec = &key.entry.spec,
          .offset = part.offset,
          .length = part.length,
          .gradients = round.gradients,
          .summed = round.summed,
          .scale = 1.0 / divisor,
          .samples = round.samples,
          .round = part.version,
          .num_update = part.num_updates,
          .updates_per_step = key.async() ? num_workers : 1};
}

void UpdateTable(const UpdateRule& rule, const kvstore::UpdateInput& input, kvstore::RowTable& table) {
  std::vector<kvstore::RowFrame> frames;
  for (const compression::Encoded& pushed : input.gradients)
    frames.emplace_back(Bytes(pushed.data, pushed.size), table.row_bytes(), pushed.scale);
  kvstore::UpdateRows(rule, input, frames, &table);
}

}  // namespace

void RoundCloser::Update(ShardKey& key, std::span<const ClosingRound> rounds) {
  const UpdateRule& rule = keys_.RuleFor(key, rounds.front().part->version + 1);
  const bool by_samples = rule.normalizes_by_samples();
  for (const ClosingRound& round : rounds) ++round.part->version;
  // No worker had a sample: the round closes and the weight stays as it is.
  if (by_samples && rounds.front().samples == 0) return;
  if (rule.optimizer)
    for (const ClosingRound& round : rounds) ++round.part->num_updates;
  if (!key.places) return UpdateArrays(key, rule, rounds);
  for (const ClosingRound& round : rounds)
    UpdateTable(rule, InputOf(key, rule, round, workers_.count()), *round.part->rows);
}

void RoundCloser::UpdateArrays(ShardKey& key, const UpdateRule& rule, std::span<const ClosingRound> rounds) {
  Optimizer::Norms norms;
  for (const ClosingRound& round : rounds) {
    PrepareStates(rule, key.entry.spec, *round.part);
    if (rule.needs_norms())
      kvstore::MeasurePart(rule, InputOf(key, rule, round, workers_.count()), round.part->weight->data(),
                           round.part->states.arrays, &norms);
  }
  for (const ClosingRound& round : rounds) {
    kvstore::UpdateInput input = InputOf(key, rule, round, workers_.count());
    input.norms = norms;
    VersionedWeight& weight = *round.part->weight;
    const std::byte* old = weight.data();
    std::byte* const fresh = weight.Next();
    input.non_temporal = fresh != old && keys_.weight_bytes() > cache_bytes_;
    // Gradients that arrive by a socket keep other cores busy with receiving, so that helpers would compete
    // with them. Only updates with leased gradients are shared with the helpers.
    const bool shared_out = round.leased && updates_.has_helpers() && !rule.updater && !rule.needs_norms();
    if (shared_out) {
      updates_.Add({round.part, &rule, input, round.gradients, old, fresh});
    } else {
      kvstore::UpdatePart(rule, input, old, fresh, round.part->states.arrays);
    }
    weight.Publish();
  }
}

std::span<ShardPart> RoundCloser::CloseNext(ShardKey& key, ShardPart& part) {
  const std::span<ShardPart> parts = keys_.PartsClosingWith(key, part);
  const bool complete = std::all_of(parts.begin(), parts.end(), [&](const ShardPart& one) {
    return one.version == part.version && !one.rounds.empty() && one.rounds.front().Complete(workers_.live());
  });
  if (!complete) return {};
  InlineVector<ClosingRound, 1> rounds;
  for (ShardPart& one : parts) {
    if (one.update_waits) updates_.Run();  // the update of the round before uses one.closed
    rounds.push_back(aggregator_.TakeRound(key, one));
  }
  Update(key, rounds);
  for (ShardPart& one : parts)
    if (!one.update_waits) one.closed.Clear();
  return parts;
}

size_t RoundCloser::ApplyStaged(ShardKey& key, ShardKey::WorkerPushes& pushes) {
  size_t applied = 0;
  for (; !pushes.staged.empty() && pushes.staged.front().arrived == key.parts.size(); ++applied) {
    const ShardKey::StagedPush push = std::move(pushes.staged.front());
    pushes.staged.pop_front();
    std::vector<ClosingRound> rounds;
    for (size_t i = 0; i < key.parts.size(); ++i) {
      const Contribution& contribution = *push.parts[i];
      rounds.push_back({&key.parts[i], {contribution.encoded()}, contribution.divisor, contribution.samples});
    }
    Update(key, rounds);
    ++pushes.applied;
  }
  return applied;
}

void RoundCloser::LogClosed(ShardKey& key) const {
  if (!VLOG_IS_ON(1)) return;
  uint64_t everywhere = UINT64_MAX;
  for (const ShardPart& part : key.parts) everywhere = std::min(everywhere, part.version);
  if (everywhere <= key.reported_round) return;
  VLOG(1) << "round " << everywhere << " of " << wire::ToString(key.entry.spec) << " closed, "
          << workers_.live().size() << (workers_.live().size() == 1 ? " worker" : " workers");
  key.reported_round = everywhere;
}

}  // namespace sluice::server
