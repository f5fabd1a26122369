// 16-bit floats: IEEE 754 binary16 and bfloat16. Conversions round to nearest even; NaN stays NaN.
#pragma once

#include <cstddef>

#include "sluice/dtype.h"

namespace sluice {

Half HalfFromFloat(float value);
float ToFloat(Half value);
BFloat16 BFloat16FromFloat(float value);
float ToFloat(BFloat16 value);

// Each converts n elements; the array of bytes may have any alignment.
void HalfToFloat(const std::byte* from, float* to, size_t n);
void FloatToHalf(const float* from, std::byte* to, size_t n);
void BFloat16ToFloat(const std::byte* from, float* to, size_t n);
void FloatToBFloat16(const float* from, std::byte* to, size_t n);

}  // namespace sluice
