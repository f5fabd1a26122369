#include <cstdint>

#include "base/check.h"
#include "data/images/decode.h"

// An accepted image must be whole and at most as large as allowed.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  const auto decoded = sluice::DecodeImage(std::as_bytes(std::span(data, size)), "input", kMaxBytes);
  if (!decoded) return 0;
  const sluice::Image& image = decoded.value();
  SLUICE_CHECK(image.height > 0 && image.width > 0 && (image.channels == 1 || image.channels == 3));
  SLUICE_CHECK(static_cast<int64_t>(image.pixels.size()) == image.height * image.width * image.channels);
  SLUICE_CHECK(image.pixels.size() <= kMaxBytes);
  return 0;
}
