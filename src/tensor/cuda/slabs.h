// Blocks of memory that are cut out of large pieces (slabs).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/buffer.h"

namespace sluice::cuda {

// Cuts blocks out of slabs and keeps freed ones for requests of about the same size. It writes nothing to the
// memory, which the host may not be able to reach. Not thread-safe.
class Slabs {
 public:
  // Returns memory for a slab of so many bytes, which begins at a multiple of 256, or null if there is none.
  using Make = std::function<void*(size_t bytes)>;
  // A slab has `slab_bytes` bytes; a larger block has a slab of its own, of its size. The caller frees the
  // memory of the slabs at the end (RemoveAll).
  Slabs(size_t slab_bytes, Make make) : slab_bytes_(slab_bytes), make_(std::move(make)) {}

  // Returns a block of at least `size` bytes, which begins at a multiple of 256; null if there is no memory.
  std::byte* Take(size_t size);
  // Gives back what Take returned. Returns false, and does nothing, for an address that is no block's.
  bool GiveBack(const void* block);
  // Removes the slabs of which no block is in use, or all of them; the caller frees their memory.
  std::vector<MutableBytes> RemoveUnused();
  std::vector<MutableBytes> RemoveAll();

  size_t held() const { return held_; }  // bytes of all slabs
  const BlockBytes& in_use() const { return in_use_; }

 private:
  struct Slab {
    MutableBytes memory;
    size_t cut = 0;  // bytes; blocks are cut from the front
    size_t blocks_in_use = 0;
  };
  struct Block {
    size_t size = 0;
    Slab* slab = nullptr;
    bool in_use = false;
  };

  Slab* Add(size_t bytes);
  std::vector<MutableBytes> Remove(const std::function<bool(const Slab&)>& goes);

  const size_t slab_bytes_;
  const Make make_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::map<const void*, Block> blocks_;             // by their beginnings
  std::map<size_t, std::vector<std::byte*>> free_;  // free blocks by their size
  size_t held_ = 0;
  BlockBytes in_use_;
};

}  // namespace sluice::cuda
