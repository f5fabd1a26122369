#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice {

// Converts between floating types, and from integers to float32. Results are rounded to nearest even; what is
// too large becomes infinity, and NaN stays NaN.
struct ConvertArgs {
  DType from_type;
  const void* from;
  DType to_type;
  void* to;
  int64_t n;
};

}  // namespace sluice
