// Batch normalisation over planes [batch, channels, size].
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Channels [first, last) of what Kernels::BatchNorm and BatchNormBackward compute: a channel is one thread's
// work, so that its sums do not depend on the number of threads.
void BatchNormChannels(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                       float* running_mean, float* running_variance, float* out, float* mean, float* inverse,
                       int64_t first, int64_t last);
void BatchNormChannelsBackward(const BatchNormShape& shape, const float* x, const float* gamma,
                               const float* mean, const float* inverse, const float* grad, float* grad_x,
                               float* grad_gamma, float* grad_beta, int64_t first, int64_t last);

}  // namespace sluice::cpu
