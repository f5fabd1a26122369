// Layer normalisation of rows.
#pragma once

#include <cstdint>

namespace sluice {

// For each row, out = (x - mean) / sqrt(variance + epsilon) gamma + beta.
struct LayerNormArgs {
  int64_t rows, columns;
  float epsilon;
  const float* x;                // [rows, columns]
  const float* gamma = nullptr;  // [columns]; null: ones
  const float* beta = nullptr;   // [columns]; null: zeros
  float* out;                    // [rows, columns]
  float* mean;                   // [rows]; receives the mean, for LayerNormBackward
  float* inverse;                // [rows]; receives 1 / sqrt(variance + epsilon)
};

// Gradients that are null are not computed.
struct LayerNormBackwardArgs {
  int64_t rows, columns;
  const float* x;
  const float* gamma = nullptr;
  const float* mean;
  const float* inverse;
  const float* grad;
  float* grad_x = nullptr;
  float* grad_gamma = nullptr;
  float* grad_beta = nullptr;
};

}  // namespace sluice
