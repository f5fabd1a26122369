// The sums that an ExactSum keeps of one block of elements: a row of
// float64s for each place of the binary expansion. Internal to update/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace sluice::kvstore {

// Elements of a block, whose sums stay in the caches. A row is four pages.
inline constexpr size_t kExpandedBlock = 2048;

template <typename T>
inline constexpr size_t kPlaces = std::is_same_v<T, double> ? 5 : 4;

// The most sources that one call of AddToBlock takes.
inline constexpr size_t kAddedTogether = 32;

// Adds the first n elements of each source, `T`s at any alignment, to `rows`. `in_use`
// has a bit for each row that holds sums; the content of the other rows is undefined.
template <typename T>  // float or double
void AddToBlock(std::span<const std::byte* const> sources, size_t n, double* rows, uint8_t* in_use);

// Writes the rounded sums of n elements to `out`. The content of `rows` is undefined afterwards.
template <typename T>
void RoundBlock(size_t n, double* rows, uint8_t in_use, T* out);

}  // namespace sluice::kvstore
