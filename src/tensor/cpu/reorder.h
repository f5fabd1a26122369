// Images between the two layouts.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Images [first, last) from the other layout.
void ReorderImages(const PlanesShape& shape, const float* from, ImageLayout to_layout, float* to,
                   int64_t first, int64_t last);

}  // namespace sluice::cpu
