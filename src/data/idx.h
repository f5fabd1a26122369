// IDX, the format of MNIST: arrays of bytes with a small header, plain or gzipped.
// Format (http://yann.lecun.com/exdb/mnist): a file has two zero bytes, a type code (8: unsigned bytes), the
// number of axes, each extent as u32 big-endian, then the elements, row-major.
//
// The functions do not throw; a failure names file and field, what was found and what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;  // as many as the product of dims
};

inline constexpr uint64_t kMaxIdxBytes = uint64_t{4} << 30;

// Parses `bytes`, which failures call `origin`; gzipped bytes are unpacked first. An array of more than
// max_bytes values is a failure.
Result<IdxArray> ParseIdx(Bytes bytes, std::string_view origin, uint64_t max_bytes = kMaxIdxBytes);
Result<IdxArray> ReadIdx(const std::string& path);

// Unpacks all members of a gzip file, one after another, to at most max_bytes; more is kResourceExhausted.
Result<std::vector<uint8_t>> Gunzip(Bytes packed, std::string_view origin, uint64_t max_bytes);

}  // namespace sluice
