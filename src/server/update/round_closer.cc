// RoundCloser: from the pushes of a round to the part's new weight.
//
// Update raises the versions of the parts first; what it reads of the gradients stays in ShardPart::closed
// until the update has run, at once or from the UpdateQueue, whose helpers then write the weight. Shard calls
// it on its loop: after each push that is new, and when the membership changes.
#include "server/update/round_closer.h"

#include <algorithm>

#include "base/log.h"
#include "kvstore/rows/update_rows.h"

namespace sluice::server {
namespace {

// What the update of the part reads; `gradients` are those of `part.closed`.
kvstore::UpdateInput InputOf(const ShardKey& key, const UpdateRule& rule, const ShardPart& part,
                             const Gradients& gradients, uint32_t num_workers) {
  const uint64_t samples = part.closed.samples();
  const double divisor =
      rule.normalizes_by_samples() ? static_cast<double>(samples) : part.closed.divisor().value_or(1);
  return {.spec = &key.entry.spec,
          .offset = part.offset,
          .length = part.length,
          .gradients = gradients,
          .summed = part.closed.summed(),
          .scale = 1.0 / divisor,
          .samples = samples,
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

void RoundCloser::Update(ShardKey& key, std::span<ShardPart> parts) {
  const UpdateRule& rule = keys_.RuleFor(key, parts.front().version + 1);
  for (ShardPart& part : parts) ++part.version;
  // No worker had a sample: the round closes and the weight stays as it is.
  if (rule.normalizes_by_samples() && parts.front().closed.samples() == 0) return;
  if (rule.optimizer)
    for (ShardPart& part : parts) ++part.num_updates;
  if (!key.places) return UpdateArrays(key, rule, parts);
  for (ShardPart& part : parts) {
    const Gradients gradients = part.closed.gradients();
    UpdateTable(rule, InputOf(key, rule, part, gradients, workers_.count()), *part.rows);
  }
}

void RoundCloser::UpdateArrays(ShardKey& key, const UpdateRule& rule, std::span<ShardPart> parts) {
  Optimizer::Norms norms;
  for (ShardPart& part : parts) {
    PrepareStates(rule, key.entry.spec, part);
    if (!rule.needs_norms()) continue;
    const Gradients gradients = part.closed.gradients();
    kvstore::MeasurePart(rule, InputOf(key, rule, part, gradients, workers_.count()), part.weight->data(),
                         part.states.arrays, &norms);
  }
  for (ShardPart& part : parts) {
    const Gradients gradients = part.closed.gradients();
    kvstore::UpdateInput input = InputOf(key, rule, part, gradients, workers_.count());
    input.norms = norms;
    VersionedWeight& weight = *part.weight;
    const std::byte* old = weight.data();
    std::byte* const fresh = weight.Next();
    input.non_temporal = fresh != old && keys_.weight_bytes() > cache_bytes_;
    // Gradients that arrive by a socket keep other cores busy with receiving, so that helpers would compete
    // with them. Only updates with leased gradients are shared with the helpers. An update of an async key
    // does not wait: the next push of the key may be applied before the queue runs.
    const bool shared_out = !key.async() && part.closed.HasLeased() && updates_.has_helpers() &&
                            !rule.updater && !rule.needs_norms();
    if (shared_out) {
      updates_.Add({&part, &rule, input, gradients, old, fresh});
    } else {
      kvstore::UpdatePart(rule, input, old, fresh, part.states.arrays);
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
  for (ShardPart& one : parts) {
    if (one.update_waits) updates_.Run();  // the update of the round before uses one.closed
    aggregator_.MoveToClosed(key, one);
  }
  Update(key, parts);
  for (ShardPart& one : parts)
    if (!one.update_waits) one.closed.Clear();
  return parts;
}

size_t RoundCloser::ApplyStaged(ShardKey& key, ShardKey::WorkerPushes& pushes) {
  size_t applied = 0;
  for (; !pushes.staged.empty() && pushes.staged.front().arrived == key.parts.size(); ++applied) {
    ShardKey::StagedPush push = std::move(pushes.staged.front());
    pushes.staged.pop_front();
    for (size_t i = 0; i < key.parts.size(); ++i) {
      key.parts[i].closed.Clear();  // an update that threw leaves its gradient here
      key.parts[i].closed.Add(0, std::move(*push.parts[i]));
    }
    Update(key, key.parts);
    for (ShardPart& part : key.parts) part.closed.Clear();
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
