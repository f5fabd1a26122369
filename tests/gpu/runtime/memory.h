// The memory of a test machine: of its cards, pinned memory of the host, and memory that was registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/guarded.h"

namespace sluice::emulation {

// Thread-safe.
class Memory {
 public:
  enum class Kind { kCard, kPinned, kRegistered };
  struct Block {
    Kind kind = Kind::kCard;
    int card = -1;  // where the kind is kCard
    size_t size = 0;
  };

  Memory(int cards, size_t bytes_of_card);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Returns memory that begins at a multiple of 256, or null when the card has no room. Its first
  // mebibyte is filled with 0xff, NaN as a float.
  void* Allocate(int card, size_t size);
  void* AllocatePinned(size_t size);
  // Returns false where a part of it is registered or allocated already.
  bool Register(void* begin, size_t size);
  // Each returns false for what did not come from the call before it.
  bool Free(void* begin);
  bool FreePinned(void* begin);
  bool Unregister(void* begin);
  size_t FreeBytes(int card) const;

  // Returns the block in which [begin, begin + size) lies; empty for pageable memory of the host.
  std::optional<Block> Find(const void* begin, size_t size = 1) const;
  // As cudaMemcpy: also touches memory of cards.
  static void Move(void* to, const void* from, size_t size);
  static void Set(void* to, int value, size_t size);

  std::string Leaks() const;

 private:
  struct State {
    std::map<uintptr_t, Block> blocks;  // by their beginnings
    std::vector<size_t> free;           // bytes of each card
  };
  bool Take(void* begin, Kind kind);

  Guarded<State> state_;
};

}  // namespace sluice::emulation
