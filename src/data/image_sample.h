// An encoded image as a sample: decoded, its channels and extents made what is asked for.
#pragma once

#include <span>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"
#include "sluice/image_files.h"

namespace sluice {

// Throws Error(kInvalidArgument) for a shape other than [1 or 3, height, width] with positive extents.
void RequireImageOptions(const ImageOptions& options, std::string_view who);

// sample: options.shape.size() values. `origin` names the bytes in failures.
Status DecodeSample(Bytes bytes, std::string_view origin, const ImageOptions& options,
                    std::span<float> sample);

}  // namespace sluice
