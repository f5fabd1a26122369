// What clipping by the global norm of several arrays is made of, for floating types.
#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice {

// *sum is the sum of the squares of all elements, added up in float64.
struct SumOfSquaresArgs {
  DType dtype;
  const void* a;
  double* sum;
  int64_t n;
};

// a = factor a, computed in float64; a 16-bit result is rounded to float32 first. The factor is no float,
// since one that is too small for float32 may have products that are not.
struct ScaleArgs {
  DType dtype;
  void* a;
  double factor;
  int64_t n;
};

}  // namespace sluice
