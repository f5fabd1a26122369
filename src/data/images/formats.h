// One function for each format.
#pragma once

#include "data/images/decode.h"

namespace sluice::images {

bool IsPng(Bytes bytes);
Result<Image> DecodePng(Bytes bytes, std::string_view origin, uint64_t max_bytes);

bool IsJpeg(Bytes bytes);
Result<Image> DecodeJpeg(Bytes bytes, std::string_view origin, uint64_t max_bytes);

// Room for the pixels, once the header has been read.
Status MakeRoom(int64_t height, int64_t width, int64_t channels, std::string_view origin, uint64_t max_bytes,
                Image* image);

}  // namespace sluice::images
