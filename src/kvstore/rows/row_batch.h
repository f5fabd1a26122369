// The rows that a call names, each once, grouped by part. Free functions are thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/function_ref.h"
#include "kvstore/plan/placement.h"
#include "sluice/dtype.h"

namespace sluice::kvstore {

struct RowBatch {
  size_t size() const { return ids.size(); }
  size_t RowsOf(uint32_t part) const { return part_begin[part + 1] - part_begin[part]; }
  std::span<const int64_t> IdsOf(uint32_t part) const {
    return std::span(ids).subspan(part_begin[part], RowsOf(part));
  }
  // The positions at which the call names row i of the batch, in the order of the call.
  std::span<const uint32_t> PositionsOf(size_t i) const {
    return std::span(positions).subspan(group_begin[i], group_begin[i + 1] - group_begin[i]);
  }

  std::vector<int64_t> ids;         // by part, ascending within a part
  std::vector<size_t> part_begin;   // index of each part's first id; one entry more than parts
  std::vector<uint32_t> positions;  // positions in the call, grouped by row
  std::vector<size_t> group_begin;  // index of each row's first position; one entry more than ids
};

// `named` are all ids of the call, which must be in range and fewer than 2^32.
RowBatch MakeBatch(std::span<const int64_t> named, const plan::RowPlaces& places);

// out = (rows[0] + rows[1] + ...) / 2^exponent, of `elements` elements at any alignment, in that
// order. 16-bit floats are summed in float32 and rounded once; integers wrap. Dtypes other than 16-bit
// floats take exponent 0. Returns false when some sum of finite float16 rows is too large for float16.
bool SumRows(DType dtype, std::span<const std::byte* const> rows, size_t elements, std::byte* out,
             uint32_t exponent = 0);

// Writes a push's frame for a part (kvstore/rows/row_frame.h), RowFrame::BytesOf
// bytes, to `to`. Each row is the sum of the rows at the call's positions,
// which `at` returns, divided by 2^exponent. Returns as SumRows.
bool WriteFrame(const RowBatch& batch, uint32_t part, DType dtype, size_t elements,
                FunctionRef<const std::byte*(uint32_t position)> at, std::byte* to, uint32_t exponent = 0);
// Writes a push's frame for every part to the memory that `to_of` returns. Returns the exponent of
// all frames: 0 when every sum fits the dtype, so that rows are scaled only when a sum needs it.
uint32_t WriteFrames(const RowBatch& batch, DType dtype, size_t elements,
                     FunctionRef<const std::byte*(uint32_t position)> at,
                     FunctionRef<std::byte*(uint32_t part)> to_of);
// Copies the part's rows, one after another at `from`, to all positions of the call that name them.
void SpreadRows(const RowBatch& batch, uint32_t part, size_t row_bytes, const std::byte* from,
                FunctionRef<std::byte*(uint32_t position)> at);

}  // namespace sluice::kvstore
