// What neighbours in a Sequential do in one pass.
//
//  - A convolution applies the activation behind it to its result while it is in registers, or in place, and
//    batch normalisation a relu, after adding the shortcut where it ends a residual block.
//  - An activation that never falls and max-pooling change places: the largest input has the largest output,
//    and fewer elements are left to activate. The gradient goes to the largest input; only where outputs
//    round to the same number could it have gone elsewhere, and of several NaN in a window to the last alone.
#pragma once

#include "sluice/nn/activation.h"
#include "sluice/nn/container.h"
#include "tensor/kernels.h"

namespace sluice::nn {

ActivationShape ToOps(const Activation& activation);

// The first `count` layers one after the other.
NDArray ForwardUpTo(const Children& layers, size_t count, const NDArray& x);

}  // namespace sluice::nn
