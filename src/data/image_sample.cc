#include "data/image_sample.h"

#include <algorithm>
#include <new>
#include <vector>

#include "data/images/decode.h"
#include "data/resize.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Writes row `y` of the sample's channel `c`, scaled to 0..1, to `row`. A sample with fewer channels than the
// image is grey: BT.601's luma of the colours.
void ToRow(const Image& image, int64_t channels, int64_t c, int64_t y, std::span<float> row) {
  const auto stride = static_cast<size_t>(image.channels);
  const uint8_t* from = image.pixels.data() + static_cast<size_t>(y) * row.size() * stride;
  if (channels < image.channels) {
    for (size_t x = 0; x < row.size(); ++x, from += stride) {
      row[x] = (0.299f * static_cast<float>(from[0]) + 0.587f * static_cast<float>(from[1]) +
                0.114f * static_cast<float>(from[2])) /
               255.0f;
    }
    return;
  }
  if (image.channels > 1) from += c;
  for (size_t x = 0; x < row.size(); ++x) row[x] = static_cast<float>(from[x * stride]) / 255.0f;
}

// Converts and resizes `image` into `sample`. Beside the image it needs memory for a few rows only.
void Convert(const Image& image, const Shape& shape, std::span<float> sample) {
  const auto width = static_cast<size_t>(image.width);
  const int64_t different = std::min(shape[0], image.channels);  // grey to colour: the channels are equal
  const auto area = static_cast<size_t>(shape[1] * shape[2]);
  if (image.height == shape[1] && image.width == shape[2]) {
    for (int64_t row = 0; row < different * image.height; ++row)
      ToRow(image, shape[0], row / image.height, row % image.height,
            sample.subspan(static_cast<size_t>(row) * width, width));
  } else {
    std::vector<float> line(width);
    const auto row = [&](int64_t c, int64_t y) {
      ToRow(image, shape[0], c, y, line);
      return std::span<const float>(line);
    };
    ResizeRows({different, image.height, image.width}, row, {different, shape[1], shape[2]},
               sample.first(static_cast<size_t>(different) * area), /*antialias=*/true);
  }
  for (size_t c = static_cast<size_t>(different); c < static_cast<size_t>(shape[0]); ++c)
    std::copy_n(sample.begin(), area, sample.begin() + static_cast<ptrdiff_t>(c * area));
}

const char* NameOf(int64_t channels) {
  return channels == 1 ? "grey (1 channel)" : "in colour (3 channels)";
}

}  // namespace

void RequireImageOptions(const ImageOptions& options, std::string_view who) {
  const Shape& shape = options.shape;
  if (shape.ndim() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] < 1 || shape[2] < 1 ||
      static_cast<uint64_t>(shape.size()) > kMaxImageBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(who, ": the images' shape is ", shape,
                       "; expected [channels, height, width] with 1 or 3 channels and at most ",
                       kMaxImageBytes, " values"));
  }
}

Status DecodeSample(Bytes bytes, std::string_view origin, const ImageOptions& options,
                    std::span<float> sample) {
  if (sample.size() != static_cast<size_t>(options.shape.size())) {
    return Fail(ErrorCode::kInvalidArgument, "'", origin, "': ", options.shape.size(),
                " values are to be written to memory for ", sample.size());
  }
  const Result<Image> decoded = DecodeImage(bytes, origin);
  if (!decoded) return decoded.failure();
  const Image& image = decoded.value();
  const int64_t channels = options.shape[0], height = options.shape[1], width = options.shape[2];
  if (image.channels != channels && !options.convert_colors) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' is ", NameOf(image.channels), "; expected ",
                NameOf(channels), ", or convert_colors");
  }
  if ((image.height != height || image.width != width) && !options.resize) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' has ", image.width, " x ", image.height,
                " pixels; expected ", width, " x ", height, ", or resize");
  }
  try {
    Convert(image, options.shape, sample);
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(origin);
  }
  return Status::Ok();
}

}  // namespace sluice
