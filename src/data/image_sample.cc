#include "data/image_sample.h"

#include <vector>

#include "base/check.h"
#include "data/images/decode.h"
#include "data/resize.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Channels first, 0..1.
void ToPlanes(const Image& image, std::span<float> planes) {
  const auto area = static_cast<size_t>(image.height * image.width);
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < area; ++i)
      planes[c * area + i] = static_cast<float>(image.pixels[i * channels + c]) / 255.0f;
  }
}

void ToGrey(const Image& image, std::span<float> plane) {
  for (size_t i = 0; i < plane.size(); ++i) {
    const uint8_t* rgb = image.pixels.data() + 3 * i;
    plane[i] = (0.299f * static_cast<float>(rgb[0]) + 0.587f * static_cast<float>(rgb[1]) +
                0.114f * static_cast<float>(rgb[2])) /
               255.0f;
  }
}

// planes: `channels` of them, each as large as the image.
void Convert(const Image& image, int64_t channels, std::span<float> planes) {
  const auto area = static_cast<size_t>(image.height * image.width);
  if (image.channels == channels) {
    ToPlanes(image, planes);
  } else if (channels == 1) {
    ToGrey(image, planes);
  } else {
    for (int64_t c = 0; c < channels; ++c)
      ToPlanes(image, planes.subspan(static_cast<size_t>(c) * area, area));
  }
}

const char* NameOf(int64_t channels) {
  return channels == 1 ? "grey (1 channel)" : "in colour (3 channels)";
}

}  // namespace

void CheckImageOptions(const ImageOptions& options, std::string_view who) {
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
  SLUICE_CHECK(sample.size() == static_cast<size_t>(options.shape.size())) << sample.size();
  const Result<Image> decoded = DecodeImage(bytes, origin);
  if (!decoded) return decoded.failure();
  const Image& image = decoded.value();
  const int64_t channels = options.shape[0], height = options.shape[1], width = options.shape[2];
  if (image.channels != channels && !options.convert_colors) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' is ", NameOf(image.channels), "; expected ",
                NameOf(channels), ", or convert_colors");
  }
  if (image.height == height && image.width == width) {
    Convert(image, channels, sample);
    return Status::Ok();
  }
  if (!options.resize) {
    return Fail(ErrorCode::kDataLoss, "'", origin, "' has ", image.width, " x ", image.height,
                " pixels; expected ", width, " x ", height, ", or resize");
  }
  std::vector<float> planes(static_cast<size_t>(channels * image.height * image.width));
  Convert(image, channels, planes);
  ResizePlanes({channels, image.height, image.width}, planes, {channels, height, width}, sample,
               /*antialias=*/true);
  return Status::Ok();
}

}  // namespace sluice
