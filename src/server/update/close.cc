// Shard's update step: a round closes when all live workers have pushed it (sync modes), or a push is
// applied when all its parts on this shard have arrived (async modes).
//
// Runs on the shard's loop, called by the aggregate step and, when the membership changes, by
// SetMembership. Rounds of a part close in order. After Update the part's version names the new
// weight, although the update may still wait in the UpdateQueue, whose helpers then write the weight;
// the queue runs before any reply is sent.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "kvstore/rows/update_rows.h"
#include "server/shard.h"

namespace sluice::server {

void Shard::Update(ShardKey& key, std::span<const Closing> closings) {
  const UpdateRule& rule = keys_.RuleFor(key, closings.front().part->version + 1);
  const bool by_samples = rule.normalizes_by_samples();
  for (const Closing& closing : closings) ++closing.part->version;
  // No worker had a sample: the round closes and the weight stays as it is.
  if (by_samples && closings.front().samples == 0) return;
  if (rule.optimizer)
    for (const Closing& closing : closings) ++closing.part->num_updates;
  key.places ? UpdateTables(key, rule, closings) : UpdateArrays(key, rule, closings);
}

kvstore::UpdateInput Shard::InputOf(const ShardKey& key, const UpdateRule& rule,
                                    const Closing& closing) const {
  const ShardPart& part = *closing.part;
  const double divisor =
      rule.normalizes_by_samples() ? static_cast<double>(closing.samples) : closing.divisor;
  return {.spec = &key.entry.spec,
          .offset = part.offset,
          .length = part.length,
          .gradients = closing.gradients,
          .summed = closing.summed,
          .scale = 1.0 / divisor,
          .samples = closing.samples,
          .round = part.version,
          .num_update = part.num_updates,
          .updates_per_step = key.async() ? num_workers_ : 1};
}

void Shard::UpdateArrays(ShardKey& key, const UpdateRule& rule, std::span<const Closing> closings) {
  Optimizer::Norms norms;
  for (const Closing& closing : closings) {
    PrepareStates(rule, key.entry.spec, *closing.part);
    if (rule.needs_norms())
      kvstore::MeasurePart(rule, InputOf(key, rule, closing), closing.part->weight->data(),
                           closing.part->states.arrays, &norms);
  }
  for (const Closing& closing : closings) {
    kvstore::UpdateInput input = InputOf(key, rule, closing);
    input.norms = norms;
    VersionedWeight& weight = *closing.part->weight;
    const std::byte* old = weight.data();
    std::byte* const fresh = weight.Next();
    input.non_temporal = fresh != old && weight_bytes_ > options_.cache_bytes;
    // Gradients that arrive by a socket keep other cores busy with receiving, so that helpers would compete
    // with them. Only updates with leased gradients are shared with the helpers.
    const bool shared_out =
        closing.leased && update_queue_.has_helpers() && !rule.updater && !rule.needs_norms();
    if (shared_out) {
      update_queue_.Add({closing.part, &rule, input, closing.gradients, old, fresh});
    } else {
      kvstore::UpdatePart(rule, input, old, fresh, closing.part->states.arrays);
    }
    weight.Publish();
  }
}

void Shard::UpdateTables(const ShardKey& key, const UpdateRule& rule,
                         std::span<const Closing> closings) const {
  for (const Closing& closing : closings) {
    kvstore::RowTable& table = *closing.part->rows;
    std::vector<kvstore::RowFrame> frames;
    for (const compression::Encoded& pushed : closing.gradients)
      frames.emplace_back(Bytes(pushed.data, pushed.size), table.row_bytes(), pushed.scale);
    kvstore::UpdateRows(rule, InputOf(key, rule, closing), frames, &table);
  }
}

std::span<const ShardPart> Shard::PartsClosingWith(const ShardKey& key, const ShardPart& part) const {
  const bool whole = !key.async() && keys_.RuleFor(key, part.version + 1).needs_norms();
  return whole ? std::span<const ShardPart>(key.parts) : std::span<const ShardPart>(&part, 1);
}
std::span<ShardPart> Shard::PartsClosingWith(ShardKey& key, ShardPart& part) const {
  const auto parts = PartsClosingWith(std::as_const(key), std::as_const(part));
  return {parts.size() == 1 ? &part : key.parts.data(), parts.size()};
}

Shard::Closed Shard::CloseNext(ShardKey& key, ShardPart& part) {
  const std::span<ShardPart> parts = PartsClosingWith(key, part);
  const bool ready = std::all_of(parts.begin(), parts.end(), [&](const ShardPart& one) {
    return one.version == part.version && !one.rounds.empty() && one.rounds.front().Complete(live_);
  });
  if (!ready) return Closed::kNothing;
  InlineVector<Closing, 1> closings;
  for (ShardPart& one : parts) {
    if (one.update_waits) update_queue_.Run();  // the update of the round before uses one.closed
    one.closed = std::move(one.rounds.front());
    one.rounds.pop_front();
    const std::byte* const sum =
        SumsEarly(key) ? one.closed.TakeSum(key.entry.spec.dtype, one.length, sums_memory_) : nullptr;
    closings.push_back({&one, one.closed.gradients(), one.closed.divisor().value_or(1), one.closed.samples(),
                        sum, one.closed.HasLeased()});
  }
  Update(key, closings);
  for (ShardPart& one : parts)
    if (!one.update_waits) one.closed.Clear();
  counters_[Counter::kRoundsClosed] += parts.size();
  for (ShardPart& one : parts) AnswerWaiters(key, one);
  return parts.size() == 1 ? Closed::kPart : Closed::kKey;
}

void Shard::CloseRounds(ShardKey& key, ShardPart& part) {
  bool closed = false, others = false;
  for (Closed now; (now = CloseNext(key, part)) != Closed::kNothing;) {
    closed = true;
    others |= now == Closed::kKey;
  }
  // Where all parts of a key close together, this part may have been the last one that the others waited for.
  while (std::exchange(others, false)) {
    for (ShardPart& other : key.parts)
      while (CloseNext(key, other) != Closed::kNothing) others = true;
  }
  if (!closed || !VLOG_IS_ON(1)) return;
  uint64_t everywhere = part.version;
  for (const ShardPart& other : key.parts) everywhere = std::min(everywhere, other.version);
  if (everywhere > key.reported_round) {
    VLOG(1) << "round " << everywhere << " of " << wire::ToString(key.entry.spec) << " closed, "
            << live_.size() << (live_.size() == 1 ? " worker" : " workers");
    key.reported_round = everywhere;
  }
}

void Shard::ApplyStaged(ShardKey& key, ShardKey::WorkerPushes& pushes) {
  bool applied = false;
  while (!pushes.staged.empty() && pushes.staged.front().arrived == key.parts.size()) {
    const ShardKey::StagedPush push = std::move(pushes.staged.front());
    pushes.staged.pop_front();
    std::vector<Closing> closings;
    for (size_t i = 0; i < key.parts.size(); ++i) {
      const Contribution& contribution = *push.parts[i];
      closings.push_back(
          {&key.parts[i], {contribution.encoded()}, contribution.divisor, contribution.samples});
    }
    Update(key, closings);
    ++pushes.applied;
    ++counters_[Counter::kRoundsClosed];
    applied = true;
  }
  if (!applied) return;
  for (ShardPart& part : key.parts) AnswerWaiters(key, part);
}

}  // namespace sluice::server
