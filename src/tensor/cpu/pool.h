// Pooling over planes [h, w].
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// How averages add up: float, twice as fast for a few values, would lose 3 digits of a whole image.
inline bool AddsInDouble(const PoolShape& s) {
  return s.window.height * s.window.width > 64;
}

// Planes [first, last) of the shape's batch x channels.
void PoolPlanes(PoolKind kind, const PoolShape& shape, const float* x, float* out, int32_t* where,
                int64_t first, int64_t last);
void PoolPlanesBackward(PoolKind kind, const PoolShape& shape, const float* grad, const int32_t* where,
                        float* grad_x, int64_t first, int64_t last);

// Images [first, last), channels last.
void PoolImages(PoolKind kind, const PoolShape& shape, const float* x, float* out, int32_t* where,
                int64_t first, int64_t last);
void PoolImagesBackward(PoolKind kind, const PoolShape& shape, const float* grad, const int32_t* where,
                        float* grad_x, int64_t first, int64_t last);

}  // namespace sluice::cpu
