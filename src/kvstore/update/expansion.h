// What an ExactSum keeps of one block of elements: for each place of their binary expansion a row of
// float64s. Internal to update/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice::kvstore {

// Elements of a block, whose sums stay in the caches; a row is two pages.
inline constexpr size_t kExpandedBlock = 2048;

template <typename T>
inline constexpr size_t kPlaces = std::is_same_v<T, double> ? 5 : 4;

// Sources that one call of AddToBlock takes at most.
inline constexpr size_t kAddedTogether = 32;

// Adds the first n elements of each source, which are `T`s at any alignment, to `rows`. `in_use` has a bit
// for each row that holds anything; the others have any content.
template <typename T>  // float, double
void AddToBlock(std::span<const std::byte* const> sources, size_t n, double* rows, uint8_t* in_use);

// The sums of n elements, rounded. Rows are unspecified thereafter.
template <typename T>
void RoundBlock(size_t n, double* rows, uint8_t in_use, T* out);

}  // namespace sluice::kvstore
