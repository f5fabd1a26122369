// What kernels and fusion need to know about an activation.
#pragma once

#include "sluice/nn/activation.h"
#include "tensor/kernels/activation.h"

namespace sluice::nn {

ActivationShape ToOps(const Activation& activation);

// Returns whether the function is monotone: a larger input never has a smaller output.
bool IsMonotone(const Activation& activation);

}  // namespace sluice::nn
