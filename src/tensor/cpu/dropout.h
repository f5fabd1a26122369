// Dropout's masks.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Rows [first, last) of what Kernels::Dropout computes.
void DropoutRows(const DropoutShape& shape, const float* x, float* out, uint8_t* kept, int64_t first,
                 int64_t last);
void DropoutBackward(const uint8_t* kept, float scale, const float* grad, float* grad_x, int64_t n);

}  // namespace sluice::cpu
