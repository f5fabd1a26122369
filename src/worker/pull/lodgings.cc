#include "worker/pull/lodgings.h"

#include "tensor/access.h"

namespace sluice::worker {

bool Lodgings::Take(const std::shared_ptr<internal::Storage>& storage, const Amount& value) {
  parts_ += value.parts;
  const auto place = places_.find(storage.get());
  const bool stays = place != places_.end() && !place->second->storage.expired();
  if (stays) {
    Lodging& lodging = *place->second;
    taken_ -= lodging.value;
    taken_ += value;
    lodging.value = value;
    lodging.since = parts_;
    lodgings_.splice(lodgings_.end(), lodgings_, place->second);
  } else if (place != places_.end()) {
    Leave(place->second);
  }
  while (!lodgings_.empty() && IsIdle(lodgings_.front())) {
    const auto idle = lodgings_.front().storage.lock();
    Leave(lodgings_.begin());
    if (idle) BringHome(idle, host_work_);
  }
  if (stays) return true;
  if (taken_.parts + value.parts > room_.parts || taken_.bytes + value.bytes > room_.bytes) return false;
  taken_ += value;
  places_[storage.get()] = lodgings_.insert(lodgings_.end(), {storage.get(), storage, value, parts_});
  return true;
}

// Every key might have been pulled twice since.
bool Lodgings::IsIdle(const Lodging& lodging) const {
  return lodging.storage.expired() || lodging.since + 2 * all_parts_ < parts_;
}

void Lodgings::Leave(std::list<Lodging>::iterator lodging) {
  taken_ -= lodging->value;
  places_.erase(lodging->address);
  lodgings_.erase(lodging);
}

}  // namespace sluice::worker
