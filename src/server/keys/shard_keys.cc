// ShardKeys: the keys of one shard, their parts, and the optimisers that govern their rounds.
//
// Keys come with the scheduler's announcements and stay as long as the shard; optimisers come with
// SetOptimizer, and go once a later one governs every part's open round. Pointers to keys and parts stay
// valid. Shard and the classes it is made of call all methods on the shard's thread.
#include "server/keys/shard_keys.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace sluice::server {

ShardKeys::ShardKeys(ServerUpdater updater, uint32_t shard, std::shared_ptr<Allocator> memory)
    : own_rule_{.optimizer = nullptr, .updater = std::move(updater)},
      shard_(shard),
      memory_(std::move(memory)) {}

std::unique_ptr<ShardKey> ShardKeys::MakeKey(const wire::KeyEntry& entry) const {
  auto key = std::make_unique<ShardKey>();
  key->entry = entry;
  if (entry.spec.rows) key->places = plan::PlacesOf(entry);
  key->all_parts = plan::PartsOf(entry);
  for (uint32_t i = 0; i < key->all_parts.size(); ++i) {
    const plan::Part& planned = key->all_parts[i];
    if (planned.shard != shard_) continue;
    key->local[i] = key->parts.size();
    ShardPart& part = key->parts.emplace_back();
    part.ref = {entry.id, i};
    part.offset = planned.offset;
    part.length = static_cast<size_t>(planned.length);
    if (!key->places) continue;
    part.rows = std::make_unique<kvstore::RowTable>(entry.spec);
    part.initialised = true;
    ++key->initialised_parts;
  }
  return key;
}

Status ShardKeys::Add(const std::vector<wire::KeyEntry>& entries) {
  for (const wire::KeyEntry& entry : entries) {
    if (Status status = ValidateRule(NewestRule(entry.spec.store), entry); !status) return status;
    if (Find(entry.id) != nullptr) continue;  // announced again
    std::unique_ptr<ShardKey> key = MakeKey(entry);
    if (key->parts.empty()) continue;
    if (keys_.size() <= entry.id) keys_.resize(entry.id + 1);
    all_.push_back(key.get());
    keys_[entry.id] = std::move(key);
  }
  return Status::Ok();
}

Result<ShardPart*> ShardKeys::FindPart(const wire::PartRef& ref, ShardKey** key) const {
  *key = Find(ref.key);
  if (*key == nullptr) return Fail(ErrorCode::kNotFound, "shard ", shard_, " has no key with id ", ref.key);
  ShardPart* part = (*key)->Find(ref.part);
  if (part == nullptr) {
    return Fail(ErrorCode::kNotFound, "part ", ref.part, " of key ", wire::ToString((*key)->entry.spec),
                " is not on shard ", shard_);
  }
  return part;
}

bool ShardKeys::InitialiseWeight(ShardKey& key, ShardPart& part, const Frame& value) {
  if (part.initialised) return false;
  part.weight.emplace(value.size(), memory_);
  weight_bytes_ += value.size();
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.initialised = true;
  ++key.initialised_parts;
  return true;
}

const UpdateRule& ShardKeys::RuleFor(const ShardKey& key, uint64_t round) const {
  const UpdateRule* rule = &own_rule_;
  if (const auto set = optimizers_.find(key.entry.spec.store); set != optimizers_.end()) {
    for (const ConfiguredRule& configured : set->second)
      if (key.async() || configured.FirstRound(key.entry.id) <= round) rule = &configured.rule;
  }
  return *rule;
}

std::span<const ShardPart> ShardKeys::PartsClosingWith(const ShardKey& key, const ShardPart& part) const {
  const bool whole = key.parts.size() > 1 && !key.async() && RuleFor(key, part.version + 1).needs_norms();
  return whole ? std::span<const ShardPart>(key.parts) : std::span<const ShardPart>(&part, 1);
}
std::span<ShardPart> ShardKeys::PartsClosingWith(ShardKey& key, ShardPart& part) const {
  const auto parts = PartsClosingWith(std::as_const(key), std::as_const(part));
  return {parts.size() == 1 ? &part : key.parts.data(), parts.size()};
}

const UpdateRule& ShardKeys::NewestRule(uint32_t store) const {
  const auto set = optimizers_.find(store);
  return set == optimizers_.end() ? own_rule_ : set->second.back().rule;
}

Status ShardKeys::SetOptimizer(const OptimizerConfig& config,
                               const std::map<uint32_t, uint64_t>& first_rounds, uint32_t store) {
  if (own_rule_.updater) {
    return Fail(ErrorCode::kFailedPrecondition,
                "this server updates with a function of its own; SetOptimizer has no place there");
  }
  if (const std::string why = InvalidReason(config); !why.empty())
    return Fail(ErrorCode::kInvalidArgument, why);
  if (const auto set = optimizers_.find(store); set != optimizers_.end()) {
    const ConfiguredRule& newest = set->second.back();
    if (newest.first_rounds == first_rounds && newest.rule.optimizer->config() == Resolved(config))
      return Status::Ok();  // announced again
  }
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const ShardKey* key : all()) {
    if (key->entry.spec.store != store) continue;
    if (Status status = ValidateRule(rule, key->entry); !status) return status;
  }
  std::vector<ConfiguredRule>& set = optimizers_[store];
  Prune(&set, store);
  set.push_back({first_rounds, rule});
  return Status::Ok();
}

// Drops the optimisers that are never needed again: those whose successor governs the open round of every
// part. Async keys always use the newest one.
void ShardKeys::Prune(std::vector<ConfiguredRule>* set, uint32_t store) const {
  const auto replaced_by = [&](const ConfiguredRule& next) {
    return std::ranges::all_of(all(), [&](const ShardKey* key) {
      return key->entry.spec.store != store || key->async() ||
             std::ranges::all_of(key->parts, [&](const ShardPart& part) {
               return next.FirstRound(key->entry.id) <= part.version + 1;
             });
    });
  };
  while (set->size() >= 2 && replaced_by((*set)[1])) set->erase(set->begin());
}

void PrepareStates(const UpdateRule& rule, const wire::KeySpec& spec, ShardPart& part) {
  const Optimizer* optimizer = rule.updater ? nullptr : rule.optimizer.get();
  if (part.rows != nullptr) return part.rows->FitStates(optimizer);
  kvstore::FitStates(optimizer, spec.dtype, part.length, &part.states);
}

}  // namespace sluice::server
