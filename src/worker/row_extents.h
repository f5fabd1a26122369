// How the rows of a call lie in memory, part behind part; each begins on a cache line.
#pragma once

#include <vector>

#include "kvstore/rows/batch.h"
#include "worker/operation.h"

namespace sluice::worker {

std::vector<Extent> ExtentsOfIds(const kvstore::RowBatch& batch);
std::vector<Extent> ExtentsOfRows(const kvstore::RowBatch& batch, size_t row_bytes);
// Ids and rows: kvstore/rows/frame.h.
std::vector<Extent> ExtentsOfFrames(const kvstore::RowBatch& batch, size_t row_bytes);
// So many rows of one part fit a frame, with their ids; one at least.
size_t RowsOfFrame(size_t row_bytes);
// Of them all, from the first on.
size_t BytesOf(const std::vector<Extent>& extents);

// The ids, as ExtentsOfIds says.
Frame IdFrames(const kvstore::RowBatch& batch, const std::vector<Extent>& extents);

}  // namespace sluice::worker
