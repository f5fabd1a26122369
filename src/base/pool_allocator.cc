// PoolAllocator: lists of free blocks by size class, and counts. It owns the free blocks; those in use belong
// to whoever has allocated them. Invariant: kept_bytes_ is the sum of the blocks in kept_. Arrays and records
// of every thread come from it.
#include "base/pool_allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

namespace sluice {

namespace {

constexpr size_t RoundedUp(size_t size) {
  constexpr size_t kSmallest = 64;
  if (size <= kSmallest) return kSmallest;
  const size_t quarter = std::max(std::bit_floor(size - 1) / 4, kSmallest / 4);
  return (size + quarter - 1) / quarter * quarter;
}

constexpr size_t ClassOf(size_t block) {
  const size_t power = std::bit_floor(block);
  return 4 * static_cast<size_t>(std::countr_zero(power)) + (block - power) / (power / 4);
}

// The blocks of sizes up to kSmall, computed at compile time in steps of kStep,
// which divides all their sizes.
constexpr size_t kSmall = 1024, kStep = 16;
struct SmallPlace {
  uint16_t block, size_class;
};
constexpr auto kSmallPlaces = [] {
  std::array<SmallPlace, kSmall / kStep + 1> places{};
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t block = RoundedUp(i * kStep);
    places[i] = {static_cast<uint16_t>(block), static_cast<uint16_t>(ClassOf(block))};
  }
  return places;
}();

}  // namespace

PoolAllocator::BlockPlace PoolAllocator::Place(size_t size) {
  if (size <= kSmall) {
    const SmallPlace small = kSmallPlaces[(size + kStep - 1) / kStep];
    return {small.block, small.size_class};
  }
  const size_t block = RoundedUp(size);
  return {block, ClassOf(block)};
}

size_t PoolAllocator::BlockOf(size_t size_class) {
  return (4 + size_class % 4) * (size_t{1} << size_class / 4) / 4;
}

void* PoolAllocator::Allocate(size_t size) {
  RequireNotForkedChild("no array or operation can be made");
  if (size > (size_t{1} << 62)) return from_->Allocate(size);
  const auto [block, of] = Place(size);
  {
    const MutexLock lock(mutex_);
    in_use_.Add(block);
    if (Free* free = kept_[of]; free != nullptr) {
      kept_[of] = free->next;
      kept_bytes_ -= block;
      return free;
    }
  }
  try {
    return from_->Allocate(block);
  } catch (...) {
    const MutexLock lock(mutex_);
    in_use_.Remove(block);
    throw;
  }
}

void PoolAllocator::Deallocate(void* data, size_t size) noexcept {
  if (InForkedChild()) return;
  const auto [block, of] = Place(size);
  {
    const MutexLock lock(mutex_);
    in_use_.Remove(block);
    if (kept_bytes_ + block <= max_kept_) {
      kept_[of] = new (data) Free{kept_[of]};
      kept_bytes_ += block;
      return;
    }
  }
  from_->Deallocate(data, block);
}

BlockBytes PoolAllocator::in_use() {
  const MutexLock lock(mutex_);
  return in_use_;
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
