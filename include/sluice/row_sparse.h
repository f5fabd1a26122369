// Some rows of a table: the gradient of an embedding, or what a call on a row-sparse key sends and receives.
#pragma once

#include "sluice/ndarray.h"

namespace sluice {

// Some rows of a table of shape {rows, ...}.
struct RowSparse {
  // Row numbers, int64 or int32. They have any shape (for example [batch, steps], one id for each word) and
  // any order; an id may occur several times, and there may be none.
  NDArray ids;
  // rows[i] belongs to row ids[i] of the table. The shape is that of `ids` followed by that of a row: for ids
  // of shape {n} it is {n, ...}.
  NDArray rows;
};

}  // namespace sluice
