// topk: the largest elements of a part, each with its place.
#pragma once

#include <cstddef>

namespace sluice::compression {

constexpr size_t BytesTopK(size_t k) {
  return 8 * k;
}

// The k largest elements of r by magnitude (of equal ones the first) become k places, ascending, and their k
// values at `out`; 0 is left of them. NaN counts as larger than all else. k <= n < 2^32.
void EncodeTopK(size_t k, float* r, size_t n, std::byte* out);

// Elements [first, first + n) of a part. What is not among the k is 0.
void DecodeTopK(const std::byte* from, size_t k, size_t first, size_t n, bool add, float* out);

// Whether the places ascend and lie below n.
bool IsValidTopK(const std::byte* from, size_t k, size_t n);

}  // namespace sluice::compression
