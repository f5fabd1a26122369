#include "tensor/cpu/pool_allocator.h"

#include <algorithm>
#include <bit>

namespace sluice {

size_t PoolAllocator::BlockSize(size_t size) {
  constexpr size_t kSmallest = 64;
  if (size <= kSmallest) return kSmallest;
  const size_t quarter = std::max(std::bit_floor(size - 1) / 4, kSmallest / 4);
  return (size + quarter - 1) / quarter * quarter;
}

void* PoolAllocator::Allocate(size_t size) {
  const size_t block = size > (size_t{1} << 62) ? size : BlockSize(size);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = kept_.find(block); it != kept_.end() && !it->second.empty()) {
      void* data = it->second.back();
      it->second.pop_back();
      kept_bytes_ -= block;
      return data;
    }
  }
  return heap_->Allocate(block);
}

void PoolAllocator::Deallocate(void* data, size_t size) noexcept {
  const size_t block = BlockSize(size);
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + block <= max_kept_) {
      kept_[block].push_back(data);
      kept_bytes_ += block;
      return;
    }
  }
  heap_->Deallocate(data, block);
}

PoolAllocator::~PoolAllocator() {
  for (const auto& [block, blocks] : kept_) {
    for (void* data : blocks) heap_->Deallocate(data, block);
  }
}

}  // namespace sluice
