// Element types: filling and converting.
#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice::cpu {

void Fill(DType dtype, void* out, double value, int64_t n);
// Elements [first, last), between floating types: between float32 and 16 bits in vector loops, else through
// float64.
void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t first, int64_t last);

}  // namespace sluice::cpu
