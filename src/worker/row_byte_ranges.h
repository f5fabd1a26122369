// How the rows of a call lie in memory: one part behind the other, each at the start of a cache line.
#pragma once

#include <vector>

#include "kvstore/rows/row_batch.h"
#include "worker/operation.h"

namespace sluice::worker {

std::vector<ByteRange> ByteRangesOfIds(const kvstore::RowBatch& batch);
std::vector<ByteRange> ByteRangesOfRows(const kvstore::RowBatch& batch, size_t row_bytes);
// Extents of frames with ids and rows (kvstore/rows/row_frame.h).
std::vector<ByteRange> ByteRangesOfFrames(const kvstore::RowBatch& batch, size_t row_bytes);
// The number of rows of one part that fit a frame together with their ids; at least 1.
size_t RowsOfFrame(size_t row_bytes);
// Bytes from the beginning of the first byte_range to the end of the last one.
size_t BytesOf(const std::vector<ByteRange>& byte_ranges);

// A frame with the ids of the batch, laid out as in `byte_ranges` (ByteRangesOfIds).
Frame IdFrames(const kvstore::RowBatch& batch, const std::vector<ByteRange>& byte_ranges);

}  // namespace sluice::worker
