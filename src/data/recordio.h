// MXNet's RecordIO, and images in it. Format (dmlc-core's recordio.h): a record is the magic number u32
// 0xced7230a, a u32 of 3 bits flag and 29 bits length, that many bytes, and zeros up to a multiple of
// 4; numbers are little-endian. Where the contents have the magic number at a multiple of 4, the writer
// leaves it out and cuts the record into parts there: flag 0 is a whole record, 1, 2 and 3 are the
// first, a middle and the last part. An image's record is an IRHeader (u32 flag, f32 label, u64 id, u64
// id2; with flag > 0 as many f32 labels follow, which replace the one) and the encoded image.
//
// The functions do not throw; a failure names file and byte, what was found and what was expected.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

// A file, or bytes in memory, to read records from.
struct RecordSource {
  std::string_view origin;                                            // names the source in failures
  uint64_t size = 0;                                                  // bytes
  std::function<Status(uint64_t offset, MutableBytes into)> read_at;  // is called for bytes within size only
};

inline constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 29;

struct Record {
  std::vector<std::byte> contents;
  uint64_t end = 0;  // where the next record begins
};

// Reads the record that begins at `offset`. More than max_bytes is kResourceExhausted. It never
// allocates more than the source has left.
Result<Record> ReadRecord(const RecordSource& source, uint64_t offset, uint64_t max_bytes = kMaxRecordBytes);
// Reads the first `size` bytes of the record that begins at `offset`, or all if it is shorter.
Result<std::vector<std::byte>> ReadRecordHead(const RecordSource& source, uint64_t offset, uint64_t size);
// Finds where every record begins, by reading all headers of the source.
Result<std::vector<uint64_t>> FindRecords(const RecordSource& source);
// Parses an .idx file: each line is a whole number, a tab, and the position of a record, a multiple of
// 4 below `source_size`. Returns the positions in the file's order.
Result<std::vector<uint64_t>> ParseRecordIndex(std::string_view text, std::string_view origin,
                                               uint64_t source_size);

struct ImageRecord {
  int32_t label = 0;
  Bytes image;  // within the record
};
inline constexpr uint64_t kImageRecordHead = 24 + 4;  // enough for the label
// Parses a record of an image, which begins at byte `offset` of `origin`. `record` may be only its first
// kImageRecordHead bytes; the image is then incomplete. The label must be a whole number from 0 to
// num_classes - 1.
Result<ImageRecord> ParseImageRecord(Bytes record, std::string_view origin, uint64_t offset,
                                     int64_t num_classes);

}  // namespace sluice
