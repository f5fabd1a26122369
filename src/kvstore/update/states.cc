#include "kvstore/update/states.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace sluice::kvstore {
namespace {

constexpr std::string_view kMaster = "master";

using Names = std::span<const std::string_view>;

std::shared_ptr<Buffer> Zeros(size_t bytes) {
  auto buffer = std::make_shared<Buffer>(bytes);
  std::memset(buffer->data(), 0, bytes);
  return buffer;
}

bool EndsInMaster(Names names) {
  return !names.empty() && names.back() == kMaster;
}

}  // namespace

bool HasMaster(const Optimizer& optimizer, DType weight) {
  return optimizer.config().multi_precision && IsFloating(weight) && SizeOf(weight) == 2;
}

std::vector<std::string_view> StateNames(const Optimizer& optimizer, DType weight) {
  std::vector<std::string_view> names(optimizer.slot_names().begin(), optimizer.slot_names().end());
  if (HasMaster(optimizer, weight)) names.push_back(kMaster);
  return names;
}

std::vector<std::optional<size_t>> KeptStates(Names had, Names names) {
  const bool had_master = EndsInMaster(had);
  const Names own = names.first(names.size() - (EndsInMaster(names) ? 1 : 0));
  const bool same = std::ranges::equal(own, had.first(had.size() - (had_master ? 1 : 0)));
  std::vector<std::optional<size_t>> kept(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (i >= own.size()) {
      if (had_master) kept[i] = had.size() - 1;
    } else if (same) {
      kept[i] = i;
    }
  }
  return kept;
}

void FitStates(const Optimizer* optimizer, DType weight, size_t length, States* states) {
  const Names slots = optimizer != nullptr ? optimizer->slot_names() : Names();
  const bool master = optimizer != nullptr && HasMaster(*optimizer, weight);
  const Names had = states->names;
  const bool as_before = had.size() == slots.size() + (master ? 1 : 0) && EndsInMaster(had) == master &&
                         std::equal(slots.begin(), slots.end(), had.begin());
  if (as_before) return;
  States fresh;
  if (optimizer != nullptr) fresh.names = StateNames(*optimizer, weight);
  for (const std::optional<size_t> kept : KeptStates(had, fresh.names))
    fresh.arrays.push_back(kept ? states->arrays[*kept] : Zeros(SlotBytes(weight, length)));
  *states = std::move(fresh);
}

}  // namespace sluice::kvstore
