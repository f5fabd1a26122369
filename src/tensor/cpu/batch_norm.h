// Batch normalisation of [rows, channels].
#pragma once

#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

// What Kernels::BatchNorm and BatchNormBackward compute. Sums are taken over pieces of the rows that depend
// on their number only, so that threads change no bit.
class BatchNorm {
 public:
  // (x - mean) scale + shift, by channel.
  struct Affine {
    const float *mean, *scale, *shift;
  };
  void Forward(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
               const float* addend, float* running_mean, float* running_variance, float* out, float* mean,
               float* inverse);
  void Backward(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                const float* mean, const float* inverse, const float* grad, float* grad_x, float* grad_gamma,
                float* grad_beta);

 private:
  Affine AffineOf(int64_t channels, const float* gamma, const float* beta, const float* mean,
                  const float* inverse);

  std::vector<double> sums_;    // of the pieces
  std::vector<float> factors_;  // scale, shift and backward's two, of the channels
};

}  // namespace sluice::cpu
