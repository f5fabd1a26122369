// Dense layers, as products of matrices, and the arithmetic of products.
#pragma once

#include <cstdint>

namespace sluice {

// The type that a device may round the factors of matrix products and convolutions to, where it
// multiplies that type faster. TensorFloat-32 has float32's exponent and ten bits behind the point. Sums are
// float32 in any case.
enum class Arithmetic : uint8_t { kFloat32, kTFloat32, kBFloat16 };

struct DenseShape {
  int64_t rows = 0, in = 0, units = 0;
  Arithmetic arithmetic = Arithmetic::kFloat32;
};

// out = x weight^T + bias.
struct DenseArgs {
  DenseShape shape;
  const float* x;               // [rows, in]
  const float* weight;          // [units, in]
  const float* bias = nullptr;  // [units]; null: zeros
  float* out;                   // [rows, units]
};

// Gradients that are null are not computed.
struct DenseBackwardArgs {
  DenseShape shape;
  const float* x = nullptr;       // may be null without grad_weight
  const float* weight = nullptr;  // may be null without grad_x
  const float* grad;
  float* grad_x = nullptr;
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
};

}  // namespace sluice
