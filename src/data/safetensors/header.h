// The JSON header of a safetensors file: conversion between its text and a struct.
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

// One tensor as the header describes it. Only the JSON types are checked, and that each field occurs once.
struct Entry {
  std::string name;
  std::string dtype;           // "F32"
  std::vector<int64_t> shape;  // each >= 0
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

// Parses the header, whose file is called `origin` in failures. Does not throw; nesting takes no stack.
Result<Header> ParseHeader(std::string_view text, std::string_view origin);

// Returns the header's text, padded with spaces to a multiple of 8 bytes. The failure is
// kInvalidArgument when a name or a metadata text is not UTF-8.
Result<std::string> FormatHeader(const Header& header);

}  // namespace sluice::safetensors
