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

void FitStates(const Optimizer* optimizer, DType weight, size_t length, States* states) {
  const Names slots = optimizer != nullptr ? optimizer->slot_names() : Names();
  const bool master = optimizer != nullptr && HasMaster(*optimizer, weight);
  const bool had_master = EndsInMaster(states->names);
  const Names had = Names(states->names).first(states->names.size() - (had_master ? 1 : 0));
  const bool same = std::equal(slots.begin(), slots.end(), had.begin(), had.end());
  if (same && master == had_master) return;
  States fresh;
  for (size_t i = 0; i < slots.size(); ++i) {
    fresh.names.push_back(slots[i]);
    fresh.arrays.push_back(same ? states->arrays[i] : Zeros(SlotBytes(weight, length)));
  }
  if (master) {
    fresh.names.push_back(kMaster);
    fresh.arrays.push_back(had_master ? states->arrays.back() : Zeros(SlotBytes(weight, length)));
  }
  *states = std::move(fresh);
}

}  // namespace sluice::kvstore
