// Makes a sample of an encoded image: decodes it and converts it to the channels and extents of the options.
#pragma once

#include <span>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"
#include "sluice/image_files.h"

namespace sluice {

// Throws Error(kInvalidArgument), whose message begins with `who`, for a shape other than [1 or 3, height,
// width] with positive extents and at most kMaxImageBytes values.
void RequireImageOptions(const ImageOptions& options, std::string_view who);

// Writes the image to `sample`, which has room for options.shape.size() values. `origin` names the bytes in
// failures.
Status DecodeSample(Bytes bytes, std::string_view origin, const ImageOptions& options,
                    std::span<float> sample);

}  // namespace sluice
