// The JSON header alone: text <-> what it says about each tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::safetensors {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
inline constexpr std::string_view kMetadataName = "__metadata__";

// One tensor as the header claims it; nothing is checked but the JSON types and that each field is there
// once.
struct Entry {
  std::string name;
  std::string dtype;           // "F32"
  std::vector<int64_t> shape;  // each >= 0
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the text's order
  std::map<std::string, std::string> metadata;
};

// Never throws, and needs no more stack for deep nesting.
Result<Header> ParseHeader(std::string_view text, std::string_view origin);

// Padded with spaces to a multiple of 8. kInvalidArgument when a text is no UTF-8.
Result<std::string> FormatHeader(const Header& header);

}  // namespace sluice::safetensors
