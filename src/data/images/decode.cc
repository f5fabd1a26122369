#include "data/images/decode.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>

#include "data/images/formats.h"

namespace sluice {
namespace {

std::string FirstBytes(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min<size_t>(bytes.size(), 4))) {
    char hex[8];
    std::snprintf(hex, sizeof(hex), " %02x", static_cast<unsigned>(byte));
    text += hex;
  }
  return text;
}

}  // namespace

namespace images {

Status MakeRoom(int64_t height, int64_t width, int64_t channels, std::string_view origin, uint64_t max_bytes,
                Image* image) {
  // Both formats have extents of at most 32 bits, so the product does not overflow.
  const uint64_t area = static_cast<uint64_t>(height) * static_cast<uint64_t>(width);
  if (area > max_bytes / static_cast<uint64_t>(channels)) {
    return Fail(ErrorCode::kResourceExhausted, "'", origin, "' is an image of ", width, " x ", height,
                " pixels with ", channels, " channels; more than ", max_bytes, " bytes are not decoded");
  }
  *image = {height, width, channels, {}};
  image->pixels.resize(area * static_cast<uint64_t>(channels));
  return Status::Ok();
}

}  // namespace images

Failure NoMemoryFor(std::string_view origin) {
  return Fail(ErrorCode::kResourceExhausted, "'", origin,
              "': no memory to decode it; allow the process more, or decode with fewer threads");
}

Result<Image> DecodeImage(Bytes bytes, std::string_view origin, uint64_t max_bytes) {
  try {
    if (images::IsPng(bytes)) return images::DecodePng(bytes, origin, max_bytes);
    if (images::IsJpeg(bytes)) return images::DecodeJpeg(bytes, origin, max_bytes);
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(origin);
  }
  return Fail(ErrorCode::kDataLoss, "'", origin, "' is neither PNG nor JPEG: it has ", bytes.size(),
              " bytes, which begin with", bytes.empty() ? " nothing" : FirstBytes(bytes));
}

}  // namespace sluice
