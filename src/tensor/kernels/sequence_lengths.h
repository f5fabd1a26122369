#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice {

// lengths[i] is the number of steps of row i of the ids up to its last id that is not `padding`.
struct SequenceLengthsArgs {
  DType id_type;    // float32 or an integer type
  const void* ids;  // [n, steps]
  int64_t n, steps;
  double padding;
  int32_t* lengths;  // [n]
};

}  // namespace sluice
