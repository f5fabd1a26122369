// Sorting of numbers in a card's memory.
#pragma once

#include <driver_types.h>

#include <bit>
#include <cstdint>

namespace sluice::cuda {

// Returns how many keys Sort needs memory for: a power of two, and at least `n`.
inline int64_t SortedCount(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// Sorts `count` keys, a power of two, in ascending order.
void Sort(cudaStream_t stream, uint64_t* keys, int64_t count);

}  // namespace sluice::cuda
