#include "worker/row_byte_ranges.h"

#include <algorithm>
#include <cstring>

#include "kvstore/rows/row_frame.h"
#include "wire/codec.h"

namespace sluice::worker {
namespace {

constexpr size_t kCacheLine = 64;

std::vector<ByteRange> Lay(const kvstore::RowBatch& batch, size_t bytes_each) {
  std::vector<ByteRange> byte_ranges;
  size_t offset = 0;
  for (uint32_t part = 0; part + 1 < batch.part_begin.size(); ++part) {
    const size_t bytes = batch.RowsOf(part) * bytes_each;
    byte_ranges.push_back({offset, bytes});
    offset += (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  return byte_ranges;
}

}  // namespace

std::vector<ByteRange> ByteRangesOfIds(const kvstore::RowBatch& batch) {
  return Lay(batch, sizeof(int64_t));
}

std::vector<ByteRange> ByteRangesOfRows(const kvstore::RowBatch& batch, size_t row_bytes) {
  return Lay(batch, row_bytes);
}

std::vector<ByteRange> ByteRangesOfFrames(const kvstore::RowBatch& batch, size_t row_bytes) {
  return Lay(batch, kvstore::RowFrame::BytesOf(1, row_bytes));
}

size_t RowsOfFrame(size_t row_bytes) {
  return std::max<size_t>(wire::kMostFrameBytes / kvstore::RowFrame::BytesOf(1, row_bytes), 1);
}

size_t BytesOf(const std::vector<ByteRange>& byte_ranges) {
  return byte_ranges.back().offset + byte_ranges.back().bytes;
}

Frame IdFrames(const kvstore::RowBatch& batch, const std::vector<ByteRange>& byte_ranges) {
  const auto frames = std::make_shared<Buffer>(BytesOf(byte_ranges));
  for (uint32_t part = 0; part < byte_ranges.size(); ++part) {
    const std::span<const int64_t> ids = batch.IdsOf(part);
    if (!ids.empty()) std::memcpy(frames->data() + byte_ranges[part].offset, ids.data(), ids.size_bytes());
  }
  return Frame::Of(frames);
}

}  // namespace sluice::worker
