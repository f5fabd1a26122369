// Slabs: the slabs, the blocks that were cut from them, and lists of free blocks by size. Invariant: every
// block of blocks_ is either in use, and counted in its slab's blocks_in_use, or in the list of its size.
// CardMemory and PinnedMemory call it, with their mutexes held.
#include "tensor/cuda/slabs.h"

#include <algorithm>
#include <utility>

#include "base/pool_allocator.h"

namespace sluice::cuda {
namespace {

constexpr size_t kMost = size_t{1} << 62;  // sizes up to it are rounded up without overflow
constexpr size_t kLeastBlock = 256;        // the slabs begin at multiples of it, and so do blocks

size_t BlockSizeFor(size_t size) {
  const size_t block = PoolAllocator::BlockSize(std::max(size, kLeastBlock));
  return (block + kLeastBlock - 1) / kLeastBlock * kLeastBlock;
}

}  // namespace

std::byte* Slabs::Take(size_t size) {
  if (size > kMost) return nullptr;
  const size_t block = BlockSizeFor(size);
  if (const auto kept = free_.find(block); kept != free_.end() && !kept->second.empty()) {
    std::byte* const memory = kept->second.back();
    kept->second.pop_back();
    Block& found = blocks_.at(memory);
    found.in_use = true;
    ++found.slab->blocks_in_use;
    in_use_.Add(block);
    return memory;
  }
  const auto fits = [&](const auto& slab) { return slab->memory.size() - slab->cut >= block; };
  const auto found = std::ranges::find_if(slabs_, fits);
  Slab* slab = found == slabs_.end() ? nullptr : found->get();
  if (slab == nullptr) slab = Add(std::max(block, slab_bytes_));
  if (slab == nullptr && block < slab_bytes_) slab = Add(block);
  if (slab == nullptr) return nullptr;
  std::byte* const memory = slab->memory.data() + std::exchange(slab->cut, slab->cut + block);
  blocks_[memory] = {block, slab, true};
  ++slab->blocks_in_use;
  in_use_.Add(block);
  return memory;
}

Slabs::Slab* Slabs::Add(size_t bytes) {
  void* const memory = make_(bytes);
  if (memory == nullptr) return nullptr;
  slabs_.push_back(std::make_unique<Slab>(Slab{.memory = {static_cast<std::byte*>(memory), bytes}}));
  held_ += bytes;
  return slabs_.back().get();
}

bool Slabs::GiveBack(const void* block) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end() || !found->second.in_use) return false;
  Block& given = found->second;
  given.in_use = false;
  --given.slab->blocks_in_use;
  in_use_.Remove(given.size);
  free_[given.size].push_back(const_cast<std::byte*>(static_cast<const std::byte*>(block)));
  return true;
}

std::vector<MutableBytes> Slabs::RemoveUnused() {
  return Remove([](const Slab& slab) { return slab.blocks_in_use == 0; });
}

std::vector<MutableBytes> Slabs::RemoveAll() {
  return Remove([](const Slab&) { return true; });
}

std::vector<MutableBytes> Slabs::Remove(const std::function<bool(const Slab&)>& goes) {
  std::vector<MutableBytes> gone;
  for (auto& [size, list] : free_)
    std::erase_if(list, [&](const std::byte* memory) { return goes(*blocks_.at(memory).slab); });
  std::erase_if(blocks_, [&](const auto& entry) { return goes(*entry.second.slab); });
  std::erase_if(slabs_, [&](const auto& slab) {
    if (!goes(*slab)) return false;
    gone.push_back(slab->memory);
    held_ -= slab->memory.size();
    return true;
  });
  return gone;
}

}  // namespace sluice::cuda
