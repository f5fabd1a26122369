// Batch normalisation of [rows, channels].
#pragma once

#include <cstdint>

namespace sluice {

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  float epsilon = 0;
  float momentum = 0;
  bool training = false;  // use the batch's statistics and update the running ones with them
  bool relu = false;      // make negative results 0, after the addend
};

// For each channel, out = (x - mean) / sqrt(variance + epsilon) gamma + beta, with the statistics of the
// batch when training, else with the running ones. Training updates running = momentum running + (1 -
// momentum) batch's, with the unbiased variance; a batch of one row leaves the running variance as it is.
struct BatchNormArgs {
  BatchNormShape shape;
  const float* x;                 // [rows, channels]
  const float* gamma = nullptr;   // [channels]; null: ones
  const float* beta = nullptr;    // [channels]; null: zeros
  const float* addend = nullptr;  // [rows, channels], is added to the result; null: nothing is
  float* running_mean;            // [channels]
  float* running_variance;        // [channels]
  float* out;                     // [rows, channels]
  float* mean;                    // [channels]; receives the mean that was used, for BatchNormBackward
  float* inverse;                 // [channels]; receives 1 / sqrt(variance + epsilon)
};

// For a BatchNorm without an addend. Gradients that are null are not computed.
struct BatchNormBackwardArgs {
  BatchNormShape shape;
  const float* x;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean;
  const float* inverse;
  const float* grad;
  float* grad_x = nullptr;
  float* grad_gamma = nullptr;
  float* grad_beta = nullptr;
};

}  // namespace sluice
