// Filling arrays of any element type, and converting between types.
#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice::cpu {

void Fill(DType dtype, void* out, double value, int64_t n);
// Converts elements [first, last) between floating types: between float32 and a 16-bit type in
// vectorised loops, else one by one through float64.
void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t first, int64_t last);

}  // namespace sluice::cpu
