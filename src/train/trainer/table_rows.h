// Access to single rows of a parameter's arrays, on any device.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/row_sparse.h"

namespace sluice::internal {

// Returns the ids, each once and ascending; `ids` is an array of numbers, which this waits for. Leaves out
// those that are no rows of a table with `rows` rows.
std::vector<int64_t> DistinctIds(const NDArray& ids, int64_t rows);
// The sum of gradients of rows: each id once, ascending, and its row.
struct SummedRows {
  std::vector<int64_t> ids;
  NDArray rows;  // float32 [ids, columns]
};
// Returns the sum, in pinned memory. Rows of one id are added up in float64, in the order given. Waits for
// the arrays.
SummedRows SumOf(const std::vector<RowSparse>& gradients, int64_t columns);
// Returns first, first + 1, ..., `count` numbers.
std::vector<int64_t> NumbersFrom(int64_t first, int64_t count);
// Returns an array for rows of `table` with these ids, on `context`.
NDArray EmptyRows(const NDArray& table, size_t ids, Context context);
// Returns these rows of `table`, a float32 array [rows, columns].
NDArray TakeRows(const NDArray& table, const std::vector<int64_t>& ids);
// Writes the rows, an array on the table's context, to the rows of `table` with these ids. Each occurs once.
void PutRows(const NDArray& rows, const std::vector<int64_t>& ids, NDArray& table);

}  // namespace sluice::internal
