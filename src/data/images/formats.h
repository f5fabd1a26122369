// The decoders of the formats, which DecodeImage chooses from.
#pragma once

#include "data/images/decode.h"

namespace sluice::images {

bool IsPng(Bytes bytes);
Result<Image> DecodePng(Bytes bytes, std::string_view origin, uint64_t max_bytes);

bool IsJpeg(Bytes bytes);
Result<Image> DecodeJpeg(Bytes bytes, std::string_view origin, uint64_t max_bytes);

// Sets `image` to these extents, with room for the pixels. Returns kResourceExhausted when they take
// more than max_bytes, and throws std::bad_alloc when there is no memory.
Status MakeRoom(int64_t height, int64_t width, int64_t channels, std::string_view origin, uint64_t max_bytes,
                Image* image);

}  // namespace sluice::images
