// The arithmetic of fp16 and bf16: elements are rounded to 16-bit floats.
#pragma once

#include <cstddef>

#include "sluice/dtype.h"

namespace sluice::compression {

// Rounds the n elements of r, gradient plus residual, to 16-bit floats at `out`, and leaves in r
// the difference. A finite element beyond the type's range is sent as its largest number. For
// one that is not finite 0 is left.
void EncodeHalves(DType as, float* r, size_t n, std::byte* out);
// As EncodeHalves, but leaves `from` unchanged.
void RoundHalves(DType as, const float* from, size_t n, std::byte* out);
// Sets `out` to the decoded elements, or adds them if `add`.
void DecodeHalves(DType as, const std::byte* from, size_t n, bool add, float* out);

}  // namespace sluice::compression
