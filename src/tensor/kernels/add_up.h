// The sum of several arrays, which reducers compute for the gradients of a machine's devices.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/dtype.h"

namespace sluice {

// out is the sum of `arrays`, at least one, divided by 2^exponent: tensor/types/add_up.h says how the
// elements of each type are added. `out` overlaps none of the arrays.
struct AddUpArgs {
  DType dtype;
  std::span<const void* const> arrays;
  uint32_t exponent = 0;  // 0 for types other than 16-bit floats
  void* out;
  int64_t n;
};

}  // namespace sluice
