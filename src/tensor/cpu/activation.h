// Activations and their derivatives, as loops that the compiler vectorises.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// `n` elements of what Kernels::Activation and ActivationBackward compute. Activation does not have tanh and
// sigmoid, which oneDNN computes; ActivationBackward has all kinds.
void Activation(const ActivationShape& shape, const float* x, float* out, int64_t n);
void ActivationBackward(const ActivationShape& shape, const float* kept, const float* grad, float* grad_x,
                        int64_t n);

}  // namespace sluice::cpu
