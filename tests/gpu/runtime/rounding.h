// How the test machine's products round their factors.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/kernels/dense.h"

namespace sluice::emulation {

// Rounds to nearest even in the type of the arithmetic's factors: of a float's 32 bits, bfloat16 keeps 16 and
// TensorFloat-32 19.
inline float Rounded(float value, Arithmetic arithmetic) {
  const int dropped = arithmetic == Arithmetic::kBFloat16 ? 16 : arithmetic == Arithmetic::kTFloat32 ? 13 : 0;
  if (dropped == 0 || value != value) return value;
  auto bits = std::bit_cast<uint32_t>(value);
  bits += (uint32_t{1} << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  return std::bit_cast<float>(bits & ~((uint32_t{1} << dropped) - 1));
}

}  // namespace sluice::emulation
