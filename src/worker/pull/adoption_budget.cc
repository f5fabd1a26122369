#include "worker/pull/adoption_budget.h"

namespace sluice::worker {

bool AdoptionBudget::Reserve(const std::shared_ptr<internal::Storage>& storage, const Amount& value) {
  // Two checks for each new reservation find destroyed storages faster than new ones are added.
  ReleaseNextExpired();
  ReleaseNextExpired();
  const auto position = by_storage_.find(storage.get());
  if (position != by_storage_.end() && !position->second->storage.expired()) {
    used_ -= position->second->value;
    used_ += value;
    position->second->value = value;
    return true;
  }
  if (position != by_storage_.end()) Release(position->second);
  if (used_.parts + value.parts > limit_.parts || used_.bytes + value.bytes > limit_.bytes) return false;
  used_ += value;
  by_storage_[storage.get()] = adoptions_.insert(adoptions_.end(), {storage.get(), storage, value});
  return true;
}

void AdoptionBudget::ReleaseNextExpired() {
  if (adoptions_.empty()) return;
  if (const Position next = adoptions_.begin(); next->storage.expired()) {
    Release(next);
  } else {
    adoptions_.splice(adoptions_.end(), adoptions_, next);
  }
}

void AdoptionBudget::Release(Position adoption) {
  used_ -= adoption->value;
  by_storage_.erase(adoption->address);
  adoptions_.erase(adoption);
}

}  // namespace sluice::worker
