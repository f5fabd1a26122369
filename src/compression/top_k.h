// The arithmetic of topk, which sends the largest elements of a part, each with its place.
#pragma once

#include <cstddef>

namespace sluice::compression {

constexpr size_t BytesTopK(size_t k) {
  return 8 * k;
}

// Writes the k largest elements of r by magnitude (of equal ones the first) to `out`: k places,
// ascending, then their k values. Leaves 0 in r for these, and for all that is not finite. NaN counts as
// larger than all numbers. k <= n < 2^32.
void EncodeTopK(size_t k, float* r, size_t n, std::byte* out);

// Sets `out` to the elements [first, first + n) of a part, or adds them if `add`.
// Elements that are not among the k are 0.
void DecodeTopK(const std::byte* from, size_t k, size_t first, size_t n, bool add, float* out);

// Whether the k places ascend and lie below n.
bool HasAscendingPlaces(const std::byte* from, size_t k, size_t n);

}  // namespace sluice::compression
