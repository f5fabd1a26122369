// The initial values of a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/dtype.h"
#include "sluice/row_init.h"

namespace sluice::kvstore {

// Writes the initial values of row `row`, `elements` elements at any alignment, to `to`.
// Values are drawn in float64, from a seed that depends on the row, and rounded to
// `dtype`; integers are constants. `init` must be valid (InvalidReason). Thread-safe.
void FillRow(const RowInit& init, DType dtype, int64_t row, size_t elements, std::byte* to);

}  // namespace sluice::kvstore
