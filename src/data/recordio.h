// MXNet's RecordIO, and the images in it.
// Format (dmlc-core's recordio.h): a record is u32 0xced7230a, u32 of 3 bits flag and 29 bits length, that
// many bytes, and zeros up to a multiple of 4; numbers are little-endian. Where the magic number stood at a
// multiple of 4 in the contents, the record is cut into parts there, without it: flag 0 is a whole record, 1,
// 2 and 3 are the first, a middle and the last part. An image's record is an IRHeader (u32 flag, f32 label,
// u64 id, u64 id2; flag > 0: so many f32 labels follow in place of the one) and the encoded image.
//
// Nothing here throws; a failure says which file and byte, what was found and what was expected.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

// What records are read from: a file, or bytes in memory.
struct RecordSource {
  std::string_view origin;  // names it in failures
  uint64_t size = 0;
  std::function<Status(uint64_t offset, MutableBytes into)> read_at;  // within size
};

inline constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 29;

struct Record {
  std::vector<std::byte> contents;
  uint64_t end = 0;  // where the next one begins
};

// The record that begins at `offset`, of at most max_bytes. Never more memory than what the source has left.
Result<Record> ReadRecord(const RecordSource& source, uint64_t offset, uint64_t max_bytes = kMaxRecordBytes);
// Its first `size` bytes, or all if it is shorter.
Result<std::vector<std::byte>> ReadRecordHead(const RecordSource& source, uint64_t offset, uint64_t size);
// Where every record begins, from the source alone.
Result<std::vector<uint64_t>> FindRecords(const RecordSource& source);
// Where the records begin that an .idx file lists, in its order: lines of a whole number, a tab, and a
// position within `source_size` that is a multiple of 4.
Result<std::vector<uint64_t>> ParseRecordIndex(std::string_view text, std::string_view origin,
                                               uint64_t source_size);

struct ImageRecord {
  int32_t label = 0;
  Bytes image;  // within the record
};
inline constexpr uint64_t kImageRecordHead = 24 + 4;  // enough for the label
// `record` may be its head alone: then the image is what there is of it. The label is a whole number from 0
// to num_classes - 1.
Result<ImageRecord> ParseImageRecord(Bytes record, std::string_view origin, uint64_t offset,
                                     int64_t num_classes);

}  // namespace sluice
