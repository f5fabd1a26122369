// The memory of one card's arrays.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "base/buffer.h"
#include "base/mutex.h"
#include "tensor/cuda/slabs.h"
#include "tensor/stream.h"

namespace sluice::cuda {

// Memory in slabs of the card. A block is free as soon as the last array on it is gone, while the card may
// still work on it: it keeps the events of its uses, for which the first use of the next array waits.
// Thread-safe.
class CardMemory final : public Allocator {
 public:
  explicit CardMemory(int card);
  ~CardMemory() override;
  // Throws Error(kResourceExhausted), which says how much of the card is free, when it has no room and
  // giving back what is kept makes none.
  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;
  BlockBytes in_use() override;

  // The events behind which the block's memory is not used any more; called before Deallocate.
  void LeaveUses(const void* data, std::span<const Event> uses);
  // Returns the uses of the array before, as quiet events; called once after Allocate.
  Events TakeUses(const void* data);
  // Gives the slabs without arrays back to the card, after their uses. Returns whether there were some.
  bool ReleaseSlabs();

 private:
  [[noreturn]] void ThrowNoMemory(size_t size) SLUICE_REQUIRES(mutex_);

  const int card_;
  Mutex mutex_;
  Slabs slabs_ SLUICE_GUARDED_BY(mutex_);
  std::map<const void*, Events> uses_ SLUICE_GUARDED_BY(mutex_);  // by their blocks
};

}  // namespace sluice::cuda
