#include "base/pool_allocator.h"

#include <algorithm>
#include <bit>
#include <new>

namespace sluice {

size_t PoolAllocator::BlockSize(size_t size) {
  constexpr size_t kSmallest = 64;
  if (size <= kSmallest) return kSmallest;
  const size_t quarter = std::max(std::bit_floor(size - 1) / 4, kSmallest / 4);
  return (size + quarter - 1) / quarter * quarter;
}

size_t PoolAllocator::ClassOf(size_t block) {
  const size_t power = std::bit_floor(block);
  return 4 * static_cast<size_t>(std::countr_zero(power)) + (block - power) / (power / 4);
}

size_t PoolAllocator::BlockOf(size_t size_class) {
  return (4 + size_class % 4) * (size_t{1} << size_class / 4) / 4;
}

void* PoolAllocator::Allocate(size_t size) {
  if (size > (size_t{1} << 62)) return from_->Allocate(size);
  const size_t block = BlockSize(size), of = ClassOf(block);
  {
    const std::lock_guard lock(mutex_);
    if (Free* free = kept_[of]; free != nullptr) {
      kept_[of] = free->next;
      kept_bytes_ -= block;
      return free;
    }
  }
  return from_->Allocate(block);
}

void PoolAllocator::Deallocate(void* data, size_t size) noexcept {
  const size_t block = BlockSize(size), of = ClassOf(block);
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + block <= max_kept_) {
      kept_[of] = new (data) Free{kept_[of]};
      kept_bytes_ += block;
      return;
    }
  }
  from_->Deallocate(data, block);
}

PoolAllocator::~PoolAllocator() {
  for (size_t of = 0; of < kClasses; ++of) {
    for (Free* free = kept_[of]; free != nullptr;) {
      Free* next = free->next;
      from_->Deallocate(free, BlockOf(of));
      free = next;
    }
  }
}

}  // namespace sluice
