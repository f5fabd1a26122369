// Dropout: making the mask and applying it.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Computes rows [first, last) of Kernels::Dropout: the mask `kept` and `out`.
void DropoutRows(const DropoutShape& shape, const float* x, float* out, uint8_t* kept, int64_t first,
                 int64_t last);
// Applies the mask `kept` to rows [first, last) of x; with a gradient as x
// it computes Kernels::DropoutBackward.
void KeepRows(const DropoutShape& shape, const uint8_t* kept, const float* x, float* out, int64_t first,
              int64_t last);

}  // namespace sluice::cpu
