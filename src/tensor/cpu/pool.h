// Pooling, in both layouts of images. `where` is as in Kernels::Pool.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Whether averages are summed in double: for large windows, since a sum in float, which is twice as fast for
// a few values, would lose 3 digits over a whole image.
inline bool AddsInDouble(const PoolShape& s) {
  return s.window.height * s.window.width > 64;
}

// Compute planes [first, last) of the shape's batch x channels planes; images are row-major.
void PoolPlanes(PoolKind kind, const PoolShape& shape, const float* x, float* out, int32_t* where,
                int64_t first, int64_t last);
void PoolPlanesBackward(PoolKind kind, const PoolShape& shape, const float* grad, const int32_t* where,
                        float* grad_x, int64_t first, int64_t last);

// Compute images [first, last) of the batch; channels are last.
void PoolImages(PoolKind kind, const PoolShape& shape, const float* x, float* out, int32_t* where,
                int64_t first, int64_t last);
void PoolImagesBackward(PoolKind kind, const PoolShape& shape, const float* grad, const int32_t* where,
                        float* grad_x, int64_t first, int64_t last);

}  // namespace sluice::cpu
