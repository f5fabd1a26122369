// Safetensors: named arrays in one file, which other tools read, too. Format
// (https://huggingface.co/docs/safetensors): the header's length as u64 little-endian; the header as JSON
//   {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...};
// then the data. The offsets count from the start of the data and cover it without holes or overlaps.
//
// Thread safety: the functions may be called from any thread; many threads may read one SafetensorsFile.
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

// One array in memory that the view does not own: row-major, little-endian, at any alignment.
struct TensorView {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Bytes bytes;  // shape.size() * SizeOf(dtype) of them
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsIndex {
  std::vector<TensorView> tensors;  // in the order of the header; views into the parsed bytes
  Metadata metadata;
  std::map<std::string, size_t, std::less<>> places;  // indices into `tensors`, by name

  const TensorView* Find(std::string_view name) const;  // nullptr when there is none
};

struct SafetensorsFile : SafetensorsIndex {
  Buffer contents;  // the file's bytes, which the views point into
};

// Both parse a safetensors file. `origin` names the bytes in failures, for example the file's path. A failure
// (kDataLoss, or kUnimplemented for an element type that Sluice lacks) names tensor and field, what was found
// and what was expected. ReadSafetensors also returns the failures of ReadFile.
Result<SafetensorsIndex> ParseSafetensors(Bytes bytes, std::string_view origin);
Result<SafetensorsFile> ReadSafetensors(const std::string& path);

// Writes a file atomically (WriteFileAtomically). Tensors are sorted by the size of their elements, the
// widest first, so that every array in the file is aligned; the order is kept otherwise. The failure is
// kInvalidArgument for a repeated or reserved name, text that is not UTF-8, and bytes whose length does
// not fit shape and dtype.
Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const Metadata& metadata = {});

}  // namespace sluice
