// Copying images from one layout to the other.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Copies images [first, last), which are in the other layout, to `to` in `to_layout`.
void ReorderImages(const PlanesShape& shape, const float* from, ImageLayout to_layout, float* to,
                   int64_t first, int64_t last);

}  // namespace sluice::cpu
