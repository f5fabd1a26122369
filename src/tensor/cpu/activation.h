// Activations and their derivatives: loops, vectorised by the compiler.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// All but tanh and sigmoid, which are oneDNN's.
void Activation(const ActivationShape& shape, const float* x, float* out, int64_t n);
void ActivationBackward(const ActivationShape& shape, const float* kept, const float* grad, float* grad_x,
                        int64_t n);

}  // namespace sluice::cpu
