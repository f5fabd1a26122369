// Encoded images -> pixels. Nothing here throws; a failure says what the bytes are and why they are refused.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

// Rows from top to bottom, pixels from left to right, the channels of a pixel together.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // height * width * channels
};

inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 28;

// A PNG or a JPEG, known by its first bytes. `origin` names the bytes in failures. kDataLoss; kUnimplemented
// for what is valid and not read here (JPEG in CMYK); kResourceExhausted for pixels of more than max_bytes,
// or when memory is refused.
Result<Image> DecodeImage(Bytes bytes, std::string_view origin, uint64_t max_bytes = kMaxImageBytes);

// kResourceExhausted.
Failure NoMemoryFor(std::string_view origin);

}  // namespace sluice
