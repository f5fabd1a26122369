#include "worker/pull/lodgings.h"

#include "tensor/access.h"

namespace sluice::worker {

void Lodgings::Add(const std::shared_ptr<internal::Storage>& storage, uint64_t parts) {
  parts_ += parts;
  const auto [place, is_new] = places_.try_emplace(storage.get());
  if (is_new) {
    place->second = lodgings_.emplace(lodgings_.end());
  } else {
    lodgings_.splice(lodgings_.end(), lodgings_, place->second);
  }
  *place->second = {storage.get(), storage, parts_};
  while (lodgings_.front().since + 2 * kMostAdoptedParts < parts_) {
    const std::weak_ptr<internal::Storage> oldest = lodgings_.front().storage;
    places_.erase(lodgings_.front().address);
    lodgings_.pop_front();
    if (const auto storage = oldest.lock()) BringHome(storage, host_work_);
  }
}

}  // namespace sluice::worker
