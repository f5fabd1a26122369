#include "server/keys/versioned_weight.h"

#include "compression/codec.h"

namespace sluice::server {

Frame VersionedWeight::Lease(const std::shared_ptr<Version>& version) {
  version->readers.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const void> lease(
      version.get(), [version](const void*) { version->readers.fetch_sub(1, std::memory_order_release); });
  return Frame(version->buffer.bytes(), std::move(lease));
}

Frame VersionedWeight::Share(Compression as) {
  if (as == Compression::kNone) return Lease(current_);
  Rounded& rounded = rounded_[as == Compression::kFloat16 ? 0 : 1];
  if (!rounded.fresh) {
    if (rounded.version == nullptr || !rounded.version->Unread())
      rounded.version = std::make_shared<Version>(size() / 2, memory_);
    compression::EncodeWeights(as, current_->buffer.as<float>(), size() / sizeof(float),
                               rounded.version->buffer.data());
    rounded.fresh = true;
  }
  return Lease(rounded.version);
}

std::byte* VersionedWeight::Next() {
  in_place_ = current_->Unread();
  if (in_place_) return current_->buffer.data();
  if (spare_ == nullptr || !spare_->Unread()) spare_ = std::make_shared<Version>(size(), memory_);
  return spare_->buffer.data();
}

void VersionedWeight::Publish() {
  if (!in_place_) std::swap(current_, spare_);
  for (Rounded& rounded : rounded_) rounded.fresh = false;
}

}  // namespace sluice::server
