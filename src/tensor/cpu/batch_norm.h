// Batch normalisation of [rows, channels].
#pragma once

#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

// Computes Kernels::BatchNorm and BatchNormBackward. Sums are taken over pieces of the rows that depend on
// the shape only, so the number of threads changes no bit. Not thread-safe: it keeps memory between calls.
class BatchNorm {
 public:
  // The normalisation as (x - mean) scale + shift, for each channel.
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

  std::vector<double> sums_;    // of each piece, two for each channel
  std::vector<float> factors_;  // scale, shift and Backward's b and k, each of all channels
};

}  // namespace sluice::cpu
