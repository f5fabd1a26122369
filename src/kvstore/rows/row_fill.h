// How a row begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/dtype.h"
#include "sluice/row_init.h"

namespace sluice::kvstore {

// `elements` of row `row` go to `to`, at any alignment. Drawn in float64 and rounded to `dtype`; whole
// numbers are constants. A sound init (InvalidReason).
void FillRow(const RowInit& init, DType dtype, int64_t row, size_t elements, std::byte* to);

}  // namespace sluice::kvstore
