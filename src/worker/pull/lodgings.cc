#include "worker/pull/lodgings.h"

namespace sluice::worker {

bool Lodgings::Take(const std::shared_ptr<internal::Storage>& storage, const Amount& value) {
  // As fast as others come, storages that are gone are found.
  LookAtNext();
  LookAtNext();
  const auto place = places_.find(storage.get());
  if (place != places_.end() && !place->second->storage.expired()) {
    taken_ -= place->second->value;
    taken_ += value;
    place->second->value = value;
    return true;
  }
  if (place != places_.end()) Leave(place->second);
  if (taken_.parts + value.parts > room_.parts || taken_.bytes + value.bytes > room_.bytes) return false;
  taken_ += value;
  places_[storage.get()] = lodgings_.insert(lodgings_.end(), {storage.get(), storage, value});
  return true;
}

void Lodgings::LookAtNext() {
  if (lodgings_.empty()) return;
  if (const Place next = lodgings_.begin(); next->storage.expired()) {
    Leave(next);
  } else {
    lodgings_.splice(lodgings_.end(), lodgings_, next);
  }
}

void Lodgings::Leave(Place lodging) {
  taken_ -= lodging->value;
  places_.erase(lodging->address);
  lodgings_.erase(lodging);
}

}  // namespace sluice::worker
