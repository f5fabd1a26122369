// Closing rounds: when all live workers have pushed (sync), or when a push is whole (async).
#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "server/shard.h"

namespace sluice::server {

const UpdateRule& Shard::RuleFor(const Key& key, uint64_t round) const {
  static const UpdateRule kAssign;
  const UpdateRule* rule = &kAssign;
  for (const Configured& configured : optimizers_) {
    if (key.async() || configured.FirstRound(key.entry.id) <= round) rule = &configured.rule;
  }
  return *rule;
}

void Shard::PrepareSlots(const UpdateRule& rule, const wire::KeySpec& spec, Part& part) const {
  const size_t wanted = rule.optimizer && !rule.updater ? rule.optimizer->num_slots() : 0;
  if (part.slots.size() == wanted) return;
  part.slots.clear();
  for (size_t i = 0; i < wanted; ++i) {
    auto buffer = std::make_shared<Buffer>(SlotBytes(spec.dtype, part.length));
    std::memset(buffer->data(), 0, buffer->size());
    part.slots.push_back(std::move(buffer));
  }
}

void Shard::Update(Key& key, Part& part, const std::vector<const std::byte*>& gradients, double divisor,
                   uint64_t samples) {
  const UpdateRule& rule = RuleFor(key, part.version + 1);
  const bool by_samples = rule.normalizes_by_samples();
  ++part.version;
  if (by_samples && samples == 0) return;  // nobody had a sample: the round closes and nothing changes
  if (rule.optimizer) ++part.num_updates;
  PrepareSlots(rule, key.entry.spec, part);
  const UpdateInput input{.spec = &key.entry.spec,
                          .offset = part.offset,
                          .length = part.length,
                          .gradients = gradients,
                          .scale = by_samples ? 1.0 / static_cast<double>(samples) : 1.0 / divisor,
                          .samples = samples,
                          .round = part.version,
                          .num_update = part.num_updates,
                          .updates_per_step = key.async() ? num_workers_ : 1};
  const std::byte* old = part.weight->data();
  UpdatePart(rule, input, old, part.weight->Next(), part.slots);
  part.weight->Publish();
}

void Shard::CloseRounds(Key& key, Part& part) {
  bool closed = false;
  while (!part.rounds.empty() && part.rounds.front().Complete(live_)) {
    const Round round = std::move(part.rounds.front());
    part.rounds.pop_front();
    Update(key, part, round.Gradients(), round.divisor().value_or(1), round.samples());
    ++counters_["rounds_closed"];
    closed = true;
    AnswerWaiters(key, part);
  }
  if (!closed || !VLOG_IS_ON(1)) return;
  uint64_t everywhere = part.version;
  for (const Part& other : key.parts) everywhere = std::min(everywhere, other.version);
  if (everywhere > key.reported_round) {
    VLOG(1) << "round " << everywhere << " of " << wire::ToString(key.entry.spec.name) << " closed, "
            << live_.size() << (live_.size() == 1 ? " worker" : " workers");
    key.reported_round = everywhere;
  }
}

void Shard::ApplyStaged(Key& key, Key::WorkerPushes& pushes) {
  bool applied = false;
  while (!pushes.staged.empty() && pushes.staged.front().arrived == key.parts.size()) {
    const Key::Staged push = std::move(pushes.staged.front());
    pushes.staged.pop_front();
    for (size_t i = 0; i < key.parts.size(); ++i) {
      const Contribution& contribution = *push.parts[i];
      Update(key, key.parts[i], {contribution.gradient.data()}, contribution.divisor, contribution.samples);
    }
    ++pushes.applied;
    ++counters_["rounds_closed"];
    applied = true;
  }
  if (!applied) return;
  for (Part& part : key.parts) AnswerWaiters(key, part);
}

Status Shard::SetOptimizer(const OptimizerConfig& config, const std::map<uint32_t, uint64_t>& first_rounds) {
  if (options_.updater) {
    return Fail(ErrorCode::kFailedPrecondition,
                "this server updates with a function of its own; SetOptimizer has no place there");
  }
  if (const std::string why = WhyInvalid(config); !why.empty()) return Fail(ErrorCode::kInvalidArgument, why);
  if (!optimizers_.empty() && optimizers_.back().first_rounds == first_rounds &&
      optimizers_.back().rule.optimizer->config() == config) {
    return Status::Ok();  // told again
  }
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const auto& key : keys_) {
    if (key == nullptr) continue;
    if (Status status = CheckRule(rule, key->entry.spec); !status) return status;
  }
  PruneOptimizers();
  optimizers_.push_back({first_rounds, rule});
  return Status::Ok();
}

// A setting that the next one has replaced for every part's open round is never needed again.
void Shard::PruneOptimizers() {
  const auto replaced_by = [this](const Configured& next) {
    return std::all_of(keys_.begin(), keys_.end(), [&](const auto& key) {
      return key == nullptr || key->async() ||
             std::all_of(key->parts.begin(), key->parts.end(), [&](const Part& part) {
               return next.FirstRound(key->entry.id) <= part.version + 1;
             });
    });
  };
  while (optimizers_.size() >= 2 && replaced_by(optimizers_[1])) optimizers_.erase(optimizers_.begin());
}

}  // namespace sluice::server
