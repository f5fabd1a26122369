// The update of one part of a row-sparse key when its
// round closes: one pass over the rows that were pushed.
#pragma once

#include <span>

#include "kvstore/rows/row_frame.h"
#include "kvstore/rows/row_table.h"
#include "kvstore/update/update.h"

namespace sluice::kvstore {

// Updates each row that a frame names by the sum of the frames' gradients for it, in rank order (the
// order of `frames`); other rows stay as they are. `input` is as for UpdatePart, without offset,
// length and gradients. The rule must have passed ValidateRule. Not thread-safe for one table.
void UpdateRows(const UpdateRule& rule, UpdateInput input, std::span<const RowFrame> frames, RowTable* table);

}  // namespace sluice::kvstore
