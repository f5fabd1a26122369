// CardMemory: slabs, the blocks that were cut from them, and lists of free blocks by size. Nothing is written
// to the blocks: the host cannot reach them. Invariant: every block of blocks_ is either in use, and counted
// in its slab's blocks_in_use, or in the list of its size. Arrays call it, on any thread.
#include "tensor/cuda/memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "sluice/error.h"
#include "tensor/cuda/current_card.h"

namespace sluice::cuda {
namespace {

constexpr size_t kSlab = size_t{64} << 20;
constexpr size_t kMost = size_t{1} << 62;  // sizes up to it are rounded up without overflow
constexpr size_t kLeastBlock = 256;        // cudaMalloc aligns to so many bytes, and so do blocks

size_t BlockSizeFor(size_t size) {
  const size_t block = PoolAllocator::BlockSize(std::max(size, kLeastBlock));
  return (block + kLeastBlock - 1) / kLeastBlock * kLeastBlock;
}

}  // namespace

CardMemory::~CardMemory() {
  for (const std::unique_ptr<Slab>& slab : slabs_) static_cast<void>(cudaFree(slab->begin));
}

void* CardMemory::Allocate(size_t size) {
  if (size > kMost) {
    const MutexLock lock(mutex_);
    ThrowNoMemory(size);
  }
  const size_t block = BlockSizeFor(size);
  {
    const MutexLock lock(mutex_);
    if (void* const memory = TakeBlock(block)) return memory;
  }
  while (ReleaseSlabs()) {
    const MutexLock lock(mutex_);
    if (void* const memory = TakeBlock(block)) return memory;
  }
  const MutexLock lock(mutex_);
  ThrowNoMemory(size);
}

void* CardMemory::TakeBlock(size_t size) {
  if (const auto kept = free_.find(size); kept != free_.end() && !kept->second.empty()) {
    std::byte* const memory = kept->second.back();
    kept->second.pop_back();
    ++blocks_.at(memory).slab->blocks_in_use;
    return memory;
  }
  const auto fits = [&](const std::unique_ptr<Slab>& slab) { return slab->size - slab->taken >= size; };
  const auto found = std::ranges::find_if(slabs_, fits);
  Slab* slab = found == slabs_.end() ? nullptr : found->get();
  if (slab == nullptr) slab = AddSlab(std::max(size, kSlab));
  if (slab == nullptr && size < kSlab) slab = AddSlab(size);
  if (slab == nullptr) return nullptr;
  std::byte* const memory = slab->begin + std::exchange(slab->taken, slab->taken + size);
  ++slab->blocks_in_use;
  blocks_[memory] = {size, slab, {}};
  return memory;
}

CardMemory::Slab* CardMemory::AddSlab(size_t size) {
  const CurrentCard current(card_);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // CUDA would report it again
    return nullptr;
  }
  Require(error, StrCat("cudaMalloc of ", size, " bytes on ", gpu(card_)));
  slabs_.push_back(std::make_unique<Slab>(Slab{.begin = static_cast<std::byte*>(memory), .size = size}));
  return slabs_.back().get();
}

// The uses are waited for without the lock: an operation that ends destroys arrays, which come here.
bool CardMemory::ReleaseSlabs() {
  Slabs empty;
  std::vector<Block> gone;
  std::set<const void*> removed;  // where they began
  {
    const MutexLock lock(mutex_);
    const auto in_use = [](const std::unique_ptr<Slab>& slab) { return slab->blocks_in_use > 0; };
    const auto first = std::stable_partition(slabs_.begin(), slabs_.end(), in_use);
    std::move(first, slabs_.end(), std::back_inserter(empty));
    slabs_.erase(first, slabs_.end());
    const auto is_gone = [&](Slab* slab) {
      return std::ranges::any_of(empty, [&](const auto& other) { return other.get() == slab; });
    };
    for (auto entry = blocks_.begin(); entry != blocks_.end();) {
      if (!is_gone(entry->second.slab)) {
        ++entry;
        continue;
      }
      removed.insert(entry->first);
      gone.push_back(std::move(entry->second));
      entry = blocks_.erase(entry);
    }
    for (auto& [size, list] : free_)
      std::erase_if(list, [&](std::byte* memory) { return removed.contains(memory); });
  }
  for (const Block& block : gone) {
    for (const Event& use : block.uses) use.WaitQuietly();
  }
  for (const std::unique_ptr<Slab>& slab : empty) static_cast<void>(cudaFree(slab->begin));
  return !empty.empty();
}

void CardMemory::ThrowNoMemory(size_t size) {
  size_t held = 0, used = 0, free = 0, total = 0;
  for (const std::unique_ptr<Slab>& slab : slabs_) held += slab->size;
  for (const auto& [memory, block] : blocks_) used += block.size;
  for (const auto& [block, list] : free_) used -= block * list.size();
  const CurrentCard current(card_);
  static_cast<void>(cudaMemGetInfo(&free, &total));
  throw Error(
      ErrorCode::kResourceExhausted,
      StrCat(gpu(card_), " has no memory for an array of ", size, " bytes: ", free, " of ", total,
             " bytes are free, and the arrays of this process take ", used, " of the ", held,
             " bytes that it holds; use a smaller batch or model, or end other programs on the card"));
}

void CardMemory::Deallocate(void* data, size_t) noexcept {
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(data);
  SLUICE_CHECK(block != blocks_.end()) << data << " is no block of " << gpu(card_);
  --block->second.slab->blocks_in_use;
  free_[block->second.size].push_back(static_cast<std::byte*>(data));
}

void CardMemory::LeaveUses(const void* data, std::span<const Event> uses) {
  const MutexLock lock(mutex_);
  Events& kept = blocks_.at(data).uses;
  for (const Event& use : uses) {
    if (!use.Done()) kept.push_back(use.Quietly());
  }
}

Events CardMemory::TakeUses(const void* data) {
  const MutexLock lock(mutex_);
  Events uses = std::exchange(blocks_.at(data).uses, Events());
  uses.EraseIf([](const Event& use) { return use.Done(); });
  return uses;
}

}  // namespace sluice::cuda
