// Dropout's masks.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Rows [first, last) of what Kernels::Dropout computes.
void DropoutRows(const DropoutShape& shape, const float* x, float* out, uint8_t* kept, int64_t first,
                 int64_t last);
// The same under a mask that is there.
void KeepRows(const DropoutShape& shape, const uint8_t* kept, const float* x, float* out, int64_t first,
              int64_t last);

}  // namespace sluice::cpu
