// Memory of a card is poisoned for ASan (docs: sanitizer/asan_interface.h), so that a host thread that
// touches it dies with its line. This file and the kernels are compiled without ASan's checks; the copies
// are loops, since memcpy checks as well.
#include "gpu/runtime/memory.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/strings.h"

namespace sluice::emulation {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kFilled = size_t{1} << 20;

// SLUICE_POISON is defined where the program is linked with ASan. The header's macros do nothing in a file
// without its checks.
#ifdef SLUICE_POISON
void Poison(void* begin, size_t size) {
  __asan_poison_memory_region(begin, size);
}
void Unpoison(void* begin, size_t size) {
  __asan_unpoison_memory_region(begin, size);
}
#else
void Poison(void*, size_t) {}
void Unpoison(void*, size_t) {}
#endif

size_t RoundedUp(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

void* Aligned(size_t size) {
  void* const memory = std::aligned_alloc(kAlignment, std::max(RoundedUp(size), kAlignment));
  SLUICE_CHECK(memory != nullptr) << "no memory for the test machine";
  return memory;
}

template <typename Word>
void MoveWords(Word* to, const Word* from, size_t count) {
  if (to <= from) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    for (size_t i = count; i > 0; --i) to[i - 1] = from[i - 1];
  }
}

}  // namespace

Memory::Memory(int cards, size_t bytes_of_card) {
  state_.With([&](State& state) { state.free.assign(static_cast<size_t>(cards), bytes_of_card); });
}

// What a test has left is not used any more.
Memory::~Memory() {
  state_.With([](State& state) {
    for (const auto& [begin, block] : state.blocks) {
      if (block.kind == Kind::kRegistered) continue;
      Unpoison(reinterpret_cast<void*>(begin), block.size);
      std::free(reinterpret_cast<void*>(begin));
    }
  });
}

void* Memory::Allocate(int card, size_t size) {
  return state_.With([&](State& state) -> void* {
    size_t& free = state.free[static_cast<size_t>(card)];
    if (RoundedUp(size) > free) return nullptr;
    free -= RoundedUp(size);
    void* const memory = Aligned(size);
    Set(memory, 0xff, std::min(size, kFilled));
    Poison(memory, size);
    state.blocks[reinterpret_cast<uintptr_t>(memory)] = {Kind::kCard, card, size};
    return memory;
  });
}

void* Memory::AllocatePinned(size_t size) {
  return state_.With([&](State& state) {
    void* const memory = Aligned(size);
    state.blocks[reinterpret_cast<uintptr_t>(memory)] = {.kind = Kind::kPinned, .size = size};
    return memory;
  });
}

bool Memory::Register(void* begin, size_t size) {
  return state_.With([&](State& state) {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    auto next = state.blocks.lower_bound(first);
    if (next != state.blocks.end() && next->first < first + size) return false;
    if (next != state.blocks.begin() && std::prev(next)->first + std::prev(next)->second.size > first)
      return false;
    state.blocks[first] = {.kind = Kind::kRegistered, .size = size};
    return true;
  });
}

bool Memory::Take(void* begin, Kind kind) {
  return state_.With([&](State& state) {
    const auto block = state.blocks.find(reinterpret_cast<uintptr_t>(begin));
    if (block == state.blocks.end() || block->second.kind != kind) return false;
    if (kind == Kind::kCard) {
      state.free[static_cast<size_t>(block->second.card)] += RoundedUp(block->second.size);
      Unpoison(begin, block->second.size);
    }
    state.blocks.erase(block);
    return true;
  });
}

bool Memory::Free(void* begin) {
  if (!Take(begin, Kind::kCard)) return false;
  std::free(begin);
  return true;
}

bool Memory::FreePinned(void* begin) {
  if (!Take(begin, Kind::kPinned)) return false;
  std::free(begin);
  return true;
}

bool Memory::Unregister(void* begin) {
  return Take(begin, Kind::kRegistered);
}

size_t Memory::FreeBytes(int card) const {
  return state_.With([&](const State& state) { return state.free[static_cast<size_t>(card)]; });
}

std::optional<Memory::Block> Memory::Find(const void* begin, size_t size) const {
  return state_.With([&](const State& state) -> std::optional<Block> {
    const auto first = reinterpret_cast<uintptr_t>(begin);
    auto next = state.blocks.upper_bound(first);
    if (next == state.blocks.begin()) return std::nullopt;
    const auto& [start, block] = *std::prev(next);
    if (first + size > start + block.size) return std::nullopt;
    return block;
  });
}

void Memory::Move(void* to, const void* from, size_t size) {
  const auto places = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | size;
  if (places % sizeof(uint64_t) == 0) {
    return MoveWords(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), size / sizeof(uint64_t));
  }
  MoveWords(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
}

void Memory::Set(void* to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<std::byte*>(to)[i] = static_cast<std::byte>(value);
}

std::string Memory::Leaks() const {
  return state_.With([](const State& state) {
    std::string text;
    for (const auto& [begin, block] : state.blocks) {
      const char* const kind = block.kind == Kind::kCard     ? "of a card"
                               : block.kind == Kind::kPinned ? "of pinned memory"
                                                             : "of registered memory";
      text += StrCat(text.empty() ? "" : ", ", block.size, " bytes ", kind);
    }
    return text;
  });
}

}  // namespace sluice::emulation
