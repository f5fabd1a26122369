// Decoding images. The functions do not throw; a failure says what the bytes are and why they are refused.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace sluice {

// An image in memory: rows from top to bottom, pixels from left to right, the channels of a pixel together.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // height * width * channels values
};

inline constexpr uint64_t kMaxImageBytes = uint64_t{1} << 28;

// Decodes a PNG or a JPEG, which it recognises by the first bytes. `origin` names the bytes in failures. A
// failure is kDataLoss for damaged or other data, kUnimplemented for valid images that are not supported
// (JPEG in CMYK), and kResourceExhausted for more than max_bytes of pixels or when there is no memory.
Result<Image> DecodeImage(Bytes bytes, std::string_view origin, uint64_t max_bytes = kMaxImageBytes);

// The failure for lack of memory: kResourceExhausted.
Failure NoMemoryFor(std::string_view origin);

}  // namespace sluice
