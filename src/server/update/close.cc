// Shard's update step: a round closes when all live workers have pushed it (sync modes), or a push is
// applied when all its parts on this shard have arrived (async modes). Also the optimisers of the stores.
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

const UpdateRule& Shard::RuleFor(const Key& key, uint64_t round) const {
  const UpdateRule* rule = &own_rule_;
  if (const auto set = optimizers_.find(key.entry.spec.store); set != optimizers_.end()) {
    for (const ConfiguredRule& configured : set->second)
      if (key.async() || configured.FirstRound(key.entry.id) <= round) rule = &configured.rule;
  }
  return *rule;
}

const UpdateRule& Shard::NewestRule(uint32_t store) const {
  const auto set = optimizers_.find(store);
  return set == optimizers_.end() ? own_rule_ : set->second.back().rule;
}

void Shard::PrepareStates(const UpdateRule& rule, const wire::KeySpec& spec, Part& part) const {
  const Optimizer* optimizer = rule.updater ? nullptr : rule.optimizer.get();
  if (part.rows != nullptr) return part.rows->FitStates(optimizer);
  kvstore::FitStates(optimizer, spec.dtype, part.length, &part.states);
}

void Shard::Update(Key& key, std::span<const Closing> closings) {
  const UpdateRule& rule = RuleFor(key, closings.front().part->version + 1);
  const bool by_samples = rule.normalizes_by_samples();
  for (const Closing& closing : closings) ++closing.part->version;
  // No worker had a sample: the round closes and the weight stays as it is.
  if (by_samples && closings.front().samples == 0) return;
  if (rule.optimizer)
    for (const Closing& closing : closings) ++closing.part->num_updates;
  key.places ? UpdateTables(key, rule, closings) : UpdateArrays(key, rule, closings);
}

UpdateInput Shard::InputOf(const Key& key, const UpdateRule& rule, const Closing& closing) const {
  const Part& part = *closing.part;
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

void Shard::UpdateArrays(Key& key, const UpdateRule& rule, std::span<const Closing> closings) {
  Optimizer::Norms norms;
  for (const Closing& closing : closings) {
    PrepareStates(rule, key.entry.spec, *closing.part);
    if (rule.needs_norms())
      MeasurePart(rule, InputOf(key, rule, closing), closing.part->weight->data(),
                  closing.part->states.arrays, &norms);
  }
  for (const Closing& closing : closings) {
    UpdateInput input = InputOf(key, rule, closing);
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
      UpdatePart(rule, input, old, fresh, closing.part->states.arrays);
    }
    weight.Publish();
  }
}

void Shard::UpdateTables(const Key& key, const UpdateRule& rule, std::span<const Closing> closings) const {
  for (const Closing& closing : closings) {
    kvstore::RowTable& table = *closing.part->rows;
    std::vector<kvstore::RowFrame> frames;
    for (const compression::Encoded& pushed : closing.gradients)
      frames.emplace_back(Bytes(pushed.data, pushed.size), table.row_bytes(), pushed.scale);
    kvstore::UpdateRows(rule, InputOf(key, rule, closing), frames, &table);
  }
}

std::span<const Part> Shard::PartsClosingWith(const Key& key, const Part& part) const {
  const bool whole = !key.async() && RuleFor(key, part.version + 1).needs_norms();
  return whole ? std::span<const Part>(key.parts) : std::span<const Part>(&part, 1);
}
std::span<Part> Shard::PartsClosingWith(Key& key, Part& part) const {
  const auto parts = PartsClosingWith(std::as_const(key), std::as_const(part));
  return {parts.size() == 1 ? &part : key.parts.data(), parts.size()};
}

Shard::Closed Shard::CloseNext(Key& key, Part& part) {
  const std::span<Part> parts = PartsClosingWith(key, part);
  const bool ready = std::all_of(parts.begin(), parts.end(), [&](const Part& one) {
    return one.version == part.version && !one.rounds.empty() && one.rounds.front().Complete(live_);
  });
  if (!ready) return Closed::kNothing;
  InlineVector<Closing, 1> closings;
  for (Part& one : parts) {
    if (one.update_waits) update_queue_.Run();  // the update of the round before uses one.closed
    one.closed = std::move(one.rounds.front());
    one.rounds.pop_front();
    const std::byte* const sum =
        SumsEarly(key) ? one.closed.TakeSum(key.entry.spec.dtype, one.length, sums_memory_) : nullptr;
    closings.push_back({&one, one.closed.gradients(), one.closed.divisor().value_or(1), one.closed.samples(),
                        sum, one.closed.HasLeased()});
  }
  Update(key, closings);
  for (Part& one : parts)
    if (!one.update_waits) one.closed.Clear();
  counters_[Counter::kRoundsClosed] += parts.size();
  for (Part& one : parts) AnswerWaiters(key, one);
  return parts.size() == 1 ? Closed::kPart : Closed::kKey;
}

void Shard::CloseRounds(Key& key, Part& part) {
  bool closed = false, others = false;
  for (Closed now; (now = CloseNext(key, part)) != Closed::kNothing;) {
    closed = true;
    others |= now == Closed::kKey;
  }
  // Where all parts of a key close together, this part may have been the last one that the others waited for.
  while (std::exchange(others, false)) {
    for (Part& other : key.parts)
      while (CloseNext(key, other) != Closed::kNothing) others = true;
  }
  if (!closed || !VLOG_IS_ON(1)) return;
  uint64_t everywhere = part.version;
  for (const Part& other : key.parts) everywhere = std::min(everywhere, other.version);
  if (everywhere > key.reported_round) {
    VLOG(1) << "round " << everywhere << " of " << wire::ToString(key.entry.spec) << " closed, "
            << live_.size() << (live_.size() == 1 ? " worker" : " workers");
    key.reported_round = everywhere;
  }
}

void Shard::ApplyStaged(Key& key, Key::WorkerPushes& pushes) {
  bool applied = false;
  while (!pushes.staged.empty() && pushes.staged.front().arrived == key.parts.size()) {
    const Key::StagedPush push = std::move(pushes.staged.front());
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
  for (Part& part : key.parts) AnswerWaiters(key, part);
}

Status Shard::SetOptimizer(const OptimizerConfig& config, const std::map<uint32_t, uint64_t>& first_rounds,
                           uint32_t store) {
  if (options_.updater) {
    return Fail(ErrorCode::kFailedPrecondition,
                "this server updates with a function of its own; SetOptimizer has no place there");
  }
  if (const std::string why = InvalidReason(config); !why.empty())
    return Fail(ErrorCode::kInvalidArgument, why);
  if (const auto set = optimizers_.find(store); set != optimizers_.end()) {
    const ConfiguredRule& newest = set->second.back();
    if (newest.first_rounds == first_rounds && newest.rule.optimizer->config() == Resolved(config))
      return Status::Ok();  // a repeated request
  }
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const auto& key : keys_) {
    if (key == nullptr || key->entry.spec.store != store) continue;
    if (Status status = ValidateRule(rule, key->entry); !status) return status;
  }
  std::vector<ConfiguredRule>& set = optimizers_[store];
  Prune(&set, store);
  set.push_back({first_rounds, rule});
  return Status::Ok();
}

// Drops the optimisers that are never needed again: those whose successor governs the open round of every
// part. Async keys always use the newest one.
void Shard::Prune(std::vector<ConfiguredRule>* set, uint32_t store) const {
  const auto replaced_by = [&](const ConfiguredRule& next) {
    return std::all_of(keys_.begin(), keys_.end(), [&](const auto& key) {
      return key == nullptr || key->entry.spec.store != store || key->async() ||
             std::all_of(key->parts.begin(), key->parts.end(), [&](const Part& part) {
               return next.FirstRound(key->entry.id) <= part.version + 1;
             });
    });
  };
  while (set->size() >= 2 && replaced_by((*set)[1])) set->erase(set->begin());
}

}  // namespace sluice::server
