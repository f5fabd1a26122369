// Closing a round of one part of a row-sparse key: one pass over the rows that were pushed.
#pragma once

#include <span>

#include "kvstore/rows/frame.h"
#include "kvstore/rows/table.h"
#include "kvstore/update/update.h"

namespace sluice::kvstore {

// Each row that a frame names is updated by the sum of what the frames, in rank order, bring of it; untouched
// rows stay untouched. `input` as for UpdatePart, without offset, length and gradients. Rules that
// ValidateRule has let pass.
void UpdateRows(const UpdateRule& rule, UpdateInput input, std::span<const RowFrame> frames, RowTable* table);

}  // namespace sluice::kvstore
