// The rows that a call names, each once, by part.
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
  // Where the call names row i, in the order of the call.
  std::span<const uint32_t> PositionsOf(size_t i) const {
    return std::span(positions).subspan(group_begin[i], group_begin[i + 1] - group_begin[i]);
  }

  std::vector<int64_t> ids;         // by part, ascending within
  std::vector<size_t> part_begin;   // among `ids`; one more than parts
  std::vector<uint32_t> positions;  // in the call, grouped by row
  std::vector<size_t> group_begin;  // among `positions`; one more than ids
};

// `named`: all ids of the call, in range; fewer than 2^32.
RowBatch MakeBatch(std::span<const int64_t> named, const plan::RowPlaces& places);

// out = (rows[0] + rows[1] + ...) / 2^exponent, `elements` of each, in that order; 16-bit floats are summed
// in float32 and rounded once, whole numbers wrap and take exponent 0, as do other floats. At any alignment.
// False: of float16 rows that are finite some sum is too large for one.
bool SumRows(DType dtype, std::span<const std::byte* const> rows, size_t elements, std::byte* out,
             uint32_t exponent = 0);

// What a push brings to a part (kvstore/rows/frame.h), each row the sum over the call's positions, whose rows
// `at` tells, / 2^exponent. RowFrame::BytesOf bytes go to `to`. False: as SumRows.
bool WriteFrame(const RowBatch& batch, uint32_t part, DType dtype, size_t elements,
                FunctionRef<const std::byte*(uint32_t position)> at, std::byte* to, uint32_t exponent = 0);
// What a push brings to every part, to where `to_of` tells. The exponent of all: 0 where every sum fits the
// type, so that numbers keep their range for the sake of no other row.
uint32_t WriteFrames(const RowBatch& batch, DType dtype, size_t elements,
                     FunctionRef<const std::byte*(uint32_t position)> at,
                     FunctionRef<std::byte*(uint32_t part)> to_of);
// The part's rows, one behind the other at `from`, to all positions of the call that name them.
void SpreadRows(const RowBatch& batch, uint32_t part, size_t row_bytes, const std::byte* from,
                FunctionRef<std::byte*(uint32_t position)> at);

}  // namespace sluice::kvstore
