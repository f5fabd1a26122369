#include "server/update/weight.h"

namespace sluice::server {

Frame Weight::Share() const {
  current_->readers.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<Version> version = current_;
  std::shared_ptr<const void> lease(
      version.get(), [version](const void*) { version->readers.fetch_sub(1, std::memory_order_release); });
  return Frame(version->buffer.bytes(), std::move(lease));
}

std::byte* Weight::Next() {
  in_place_ = current_->Unread();
  if (in_place_) return current_->buffer.data();
  if (spare_ == nullptr || !spare_->Unread()) spare_ = std::make_shared<Version>(size());
  return spare_->buffer.data();
}

void Weight::Publish() {
  if (!in_place_) std::swap(current_, spare_);
}

}  // namespace sluice::server
