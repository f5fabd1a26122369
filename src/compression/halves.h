// fp16 and bf16: elements rounded to 16 bits.
#pragma once

#include <cstddef>

#include "sluice/dtype.h"

namespace sluice::compression {

// Elements of r, which are gradient plus residual, become 16-bit floats at `out` and what is left of them. A
// finite one that is too large is sent as far as the type goes.
void EncodeHalves(DType as, float* r, size_t n, std::byte* out);
// Likewise, of what keeps nothing.
void RoundHalves(DType as, const float* from, size_t n, std::byte* out);
void DecodeHalves(DType as, const std::byte* from, size_t n, bool add, float* out);

}  // namespace sluice::compression
