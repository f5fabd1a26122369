// Named arrays in one file, readable by other tools: safetensors.
// Format (https://huggingface.co/docs/safetensors): u64 little-endian length of the header; the header, JSON
//   {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...};
// then the data, which the offsets, counted from its start, must cover without holes or overlaps.
//
// Thread safety: functions are; a SafetensorsFile may be read by many threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "sluice/dtype.h"
#include "sluice/shape.h"

namespace sluice {

// One array in memory that somebody else owns: row-major, little-endian, at any alignment.
struct TensorView {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Bytes bytes;  // shape.size() * SizeOf(dtype)
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsIndex {
  std::vector<TensorView> tensors;  // as ordered in the header; views into the parsed bytes
  Metadata metadata;
  std::map<std::string, size_t, std::less<>> places;  // of each name among `tensors`

  const TensorView* Find(std::string_view name) const;  // nullptr when there is none
};

struct SafetensorsFile : SafetensorsIndex {
  Buffer contents;  // what the views point into
};

// `origin` names the bytes in failures, for example the file's path. A failure (kDataLoss, or kUnimplemented
// for an element type Sluice lacks) says which tensor and field, what was found and what was expected.
Result<SafetensorsIndex> ParseSafetensors(Bytes bytes, std::string_view origin);
Result<SafetensorsFile> ReadSafetensors(const std::string& path);

// Written atomically (base/file.h). Tensors of wider elements come first, else the order is kept, so that
// every array in the file is aligned. kInvalidArgument: a repeated or reserved name, text that is no UTF-8,
// bytes that are not as long as shape and dtype say.
Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const Metadata& metadata = {});

}  // namespace sluice
