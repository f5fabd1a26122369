#include "worker/bundle.h"

#include <algorithm>
#include <cstring>

#include "base/pool_allocator.h"

namespace sluice::worker {

Bundle::Bundle(const BundleArgs& common, size_t keys, size_t bytes, const std::shared_ptr<Allocator>& memory,
               Event done)
    : args_(common), most_(std::min(bytes, kMostBytes)), done_(std::move(done)) {
  args_.keys.reserve(keys);
  if (args_.kind != OpKind::kPull)
    block_ = std::allocate_shared<Buffer>(MemoryOf<Buffer>(memory), most_, memory);
}

void Bundle::Add(uint32_t key, size_t bytes, const std::byte* gradient, Destination destination) {
  if (block_ != nullptr) std::memcpy(block_->data() + bytes_, gradient, bytes);
  bytes_ += bytes;
  args_.keys.push_back({.key = key, .round = 0, .destination = std::move(destination)});
}

BundleArgs Bundle::Take() {
  if (block_ != nullptr) args_.source = Frame(Bytes(block_->data(), bytes_), block_);
  return std::move(args_);
}

}  // namespace sluice::worker
