// The row-sparse gradients of embeddings: which rows of the table get which gradients.
#pragma once

#include <optional>

#include "sluice/row_sparse.h"

namespace sluice::ops {

// Both are called within Backward. They wait for `ids`, an array of numbers, and return them in pinned
// memory. `padding` is an id that gets no gradient.
//
// For ids [...] and the gradients of their rows, `grad` [..., columns].
RowSparse RowsOfIds(const NDArray& ids, const NDArray& grad, std::optional<int64_t> padding);
// For bags of ids [n, steps] and the gradients of their means, `grad` [n, columns].
RowSparse RowsOfBags(const NDArray& ids, const NDArray& grad, std::optional<int64_t> padding);

}  // namespace sluice::ops
