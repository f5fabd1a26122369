// The memory of one card's arrays.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "tensor/stream.h"

namespace sluice::cuda {

// Cuts blocks out of large pieces of the card's memory (slabs) and keeps freed ones for arrays of about the
// same size. A block is free as soon as the last array on it is gone, while the card may still work on it: it
// keeps the events of its uses, for which the first use of the next array waits. Thread-safe.
class CardMemory final : public Allocator {
 public:
  explicit CardMemory(int card) : card_(card) {}
  ~CardMemory() override;
  // Throws Error(kResourceExhausted), which says how much of the card is free, when it has no room and
  // giving back what is kept makes none.
  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;

  // The events behind which the block's memory is not used any more; called before Deallocate.
  void LeaveUses(const void* data, std::span<const Event> uses);
  // Returns the uses of the array before, as quiet events; called once after Allocate.
  Events TakeUses(const void* data);

 private:
  struct Slab {
    std::byte* begin = nullptr;
    size_t size = 0, taken = 0;  // bytes; blocks are cut from the front
    size_t blocks_in_use = 0;
  };
  struct Block {
    size_t size = 0;
    Slab* slab = nullptr;
    Events uses;
  };
  using Slabs = std::vector<std::unique_ptr<Slab>>;

  void* TakeBlock(size_t size) SLUICE_REQUIRES(mutex_);
  // Returns null if the card has no memory for it.
  Slab* AddSlab(size_t size) SLUICE_REQUIRES(mutex_);
  // Returns whether there were slabs without arrays, which it gives back to the card.
  bool ReleaseSlabs();
  [[noreturn]] void ThrowNoMemory(size_t size) SLUICE_REQUIRES(mutex_);

  const int card_;
  Mutex mutex_;
  Slabs slabs_ SLUICE_GUARDED_BY(mutex_);
  std::map<const void*, Block> blocks_ SLUICE_GUARDED_BY(mutex_);             // by their beginnings
  std::map<size_t, std::vector<std::byte*>> free_ SLUICE_GUARDED_BY(mutex_);  // free blocks by their size
};

}  // namespace sluice::cuda
