// CardMemory: the memory of one card's arrays, as blocks of slabs that cudaMalloc gives. It owns the slabs.
// One without blocks in use goes back to the card when an allocation finds no room. Invariants: an entry of
// uses_ belongs to a free block, or to one whose array is being made or destroyed; ReleaseSlabs frees a slab
// after the uses of its blocks, for which it waits with mutex_ released. The storages of a card's arrays call
// this on any thread; CudaStream calls ReleaseSlabs on its issuing thread.
#include "tensor/cuda/memory.h"

#include <cuda_runtime_api.h>

#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "sluice/error.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/cuda/current_card.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {
namespace {

constexpr size_t kSlab = size_t{64} << 20;

void* AllocateOn(int card, size_t size) {
  const CurrentCard current(card);
  void* memory = nullptr;
  const MutexLock lock(allocation_mutex);
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // CUDA would report it again
    return nullptr;
  }
  Require(error, StrCat("cudaMalloc of ", size, " bytes on ", gpu(card)));
  return memory;
}

void Free(int card, std::span<const MutableBytes> slabs) noexcept {
  if (slabs.empty()) return;
  const CurrentCard current(card, std::nothrow);
  const MutexLock lock(allocation_mutex);
  for (const MutableBytes slab : slabs) static_cast<void>(cudaFree(slab.data()));
}

}  // namespace

CardMemory::CardMemory(int card)
    : card_(card), slabs_(kSlab, [card](size_t size) { return AllocateOn(card, size); }) {}

CardMemory::~CardMemory() {
  const MutexLock lock(mutex_);
  Free(card_, slabs_.RemoveAll());
}

void* CardMemory::Allocate(size_t size) {
  do {
    const MutexLock lock(mutex_);
    if (void* const memory = slabs_.Take(size)) return memory;
  } while (ReleaseSlabs());
  const MutexLock lock(mutex_);
  ThrowNoMemory(size);
}

// The uses are waited for without the lock: an operation that ends destroys arrays, which come here.
bool CardMemory::ReleaseSlabs() {
  std::vector<MutableBytes> unused;
  std::vector<Events> pending;
  {
    const MutexLock lock(mutex_);
    unused = slabs_.RemoveUnused();
    for (const MutableBytes slab : unused) {
      const auto begin = uses_.lower_bound(slab.data()), end = uses_.lower_bound(slab.data() + slab.size());
      for (auto uses = begin; uses != end; ++uses) pending.push_back(std::move(uses->second));
      uses_.erase(begin, end);
    }
  }
  for (const Events& uses : pending) {
    for (const Event& use : uses) use.WaitQuietly();
  }
  Free(card_, unused);
  return !unused.empty();
}

void CardMemory::ThrowNoMemory(size_t size) {
  size_t free = 0, total = 0;
  const CurrentCard current(card_);
  static_cast<void>(cudaMemGetInfo(&free, &total));
  throw Error(ErrorCode::kResourceExhausted,
              StrCat(gpu(card_), " has no memory for an array of ", size, " bytes: ", free, " of ", total,
                     " bytes are free, and the arrays of this process take ", slabs_.in_use().now, " of the ",
                     slabs_.held(),
                     " bytes that it holds; use a smaller batch or model, or end other "
                     "programs on the card"));
}

void CardMemory::Deallocate(void* data, size_t) noexcept {
  if (InForkedChild()) return;
  const MutexLock lock(mutex_);
  const bool given = slabs_.GiveBack(data);
  SLUICE_CHECK(given) << data << " is no block of " << gpu(card_);
}

BlockBytes CardMemory::in_use() {
  const MutexLock lock(mutex_);
  return slabs_.in_use();
}

void CardMemory::LeaveUses(const void* data, std::span<const Event> uses) {
  const MutexLock lock(mutex_);
  for (const Event& use : uses) {
    if (!use.Done()) uses_[data].push_back(use.Quietly());
  }
}

Events CardMemory::TakeUses(const void* data) {
  const MutexLock lock(mutex_);
  const auto found = uses_.find(data);
  if (found == uses_.end()) return {};
  Events uses = std::move(found->second);
  uses_.erase(found);
  uses.EraseIf([](const Event& use) { return use.Done(); });
  return uses;
}

}  // namespace sluice::cuda
