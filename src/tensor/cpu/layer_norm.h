// Layer normalisation of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// Compute rows [first, last) of the results of Kernels::LayerNorm, and of grad_x of LayerNormBackward.
void LayerNormRows(const float* x, const float* gamma, const float* beta, float epsilon, float* out,
                   float* mean, float* inverse, int64_t columns, int64_t first, int64_t last);
void LayerNormRowsBackward(const float* x, const float* gamma, const float* mean, const float* inverse,
                           const float* grad, float* grad_x, int64_t columns, int64_t first, int64_t last);
// Computes columns [first, last) of grad_gamma and grad_beta; either may be null.
void LayerNormColumnsBackward(const float* x, const float* mean, const float* inverse, const float* grad,
                              float* grad_gamma, float* grad_beta, int64_t rows, int64_t columns,
                              int64_t first, int64_t last);

}  // namespace sluice::cpu
