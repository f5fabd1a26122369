// Fusion: what neighbouring layers of a Sequential do in one pass.
//
//  - A convolution applies the activation after it to its result while that is in registers, or in place.
//    Batch normalisation applies a relu, after adding the shortcut where it ends a residual block.
//  - A monotone activation before max-pooling runs after the pooling: the largest input has the largest
//    output, and fewer elements are left to activate. The gradient goes to the largest input of a window. The
//    original order could send it elsewhere only where outputs round to the same number. Where a
//    window has several NaN, only the last one gets it.
#pragma once

#include "sluice/nn/container.h"

namespace sluice::nn {

// Runs the layers from `begin` to before `end` one after the other on x, fused where possible. Returns the
// last output.
NDArray ForwardRange(const Children& layers, size_t begin, size_t end, const NDArray& x);

}  // namespace sluice::nn
