// The sum of several arrays of one element type, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/dtype.h"

namespace sluice {

// out[i] = (arrays[0][i] + arrays[1][i] + ...) / 2^exponent for n elements from element `first` on, added in
// the order of the arrays, of which there is at least one. 16-bit floats are added in float32 and rounded
// once; integers wrap. Types other than 16-bit floats take exponent 0. `out` overlaps none of the arrays.
// Thread-safe for ranges that do not overlap.
void AddUp(DType dtype, std::span<const std::byte* const> arrays, uint32_t exponent, std::byte* out,
           size_t first, size_t n);

}  // namespace sluice
