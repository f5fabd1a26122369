#include "kvstore/local/local_key_table.h"

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::kvstore {

void FitStates(const UpdateRule& rule, LocalKey* key) {
  key->states.Fit(rule.optimizer.get(), key->shape.dtype, key->shape.shape.size(), key->weight.context());
}

std::optional<UpdateInput> NextUpdate(const UpdateRule& rule, LocalKey* key, const PushOptions& options) {
  const bool by_samples = rule.optimizer && rule.optimizer->config().normalize_by_samples;
  if (by_samples && options.samples == 0) return std::nullopt;
  if (rule.optimizer) ++key->num_updates;
  return UpdateInput{.scale = 1.0 / (by_samples ? static_cast<double>(options.samples) : options.divisor),
                     .samples = options.samples,
                     .round = static_cast<uint64_t>(key->num_updates),
                     .num_update = key->num_updates};
}

LocalKey& LocalKeyTable::Find(const std::string& what, const Key& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(what, " of key ", ToString(key), ": the key has not been initialised; call Init first"));
  }
  return it->second;
}

void LocalKeyTable::RequireNew(const Key& key, const wire::KeySpec& spec, const UpdateRule& rule) const {
  RequireName(key);
  if (keys_.contains(key))
    throw Error(ErrorCode::kAlreadyExists, StrCat("Init of key ", ToString(key), ": the key exists already"));
  if (!keys_.empty() && keys_.begin()->first.index() != key.index()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Init of key ", ToString(key), ": integer and string keys do not mix in one store"));
  }
  ValidateRule(rule, spec).OrThrow();
}

}  // namespace sluice::kvstore
