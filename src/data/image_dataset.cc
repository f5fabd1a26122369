#include <algorithm>

#include "base/simd.h"
#include "base/strings.h"
#include "data/required.h"
#include "sluice/dataset.h"
#include "sluice/error.h"

namespace sluice {
namespace {

SLUICE_SIMD void ScaleToUnit(const uint8_t* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) / 255.0f;
}

}  // namespace

ImageDataset::ImageDataset(Shape image_shape, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                           int64_t num_classes)
    : image_shape_(image_shape),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      num_classes_(num_classes) {
  if (num_classes < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ImageDataset: num_classes is ", num_classes, "; expected at least 1"));
  }
  const auto image_size = static_cast<uint64_t>(image_shape_.size());
  const bool fits = image_size == 0 ? pixels_.empty() : pixels_.size() / image_size == labels_.size();
  if (!fits || pixels_.size() != image_size * labels_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ImageDataset: ", pixels_.size(), " pixels and ", labels_.size(),
                       " labels do not make images of shape ", image_shape_));
  }
  for (size_t i = 0; i < labels_.size(); ++i) RequireLabel("ImageDataset", i, labels_[i], num_classes_);
}

std::span<const uint8_t> ImageDataset::pixels(int64_t index) const {
  RequireIndex("ImageDataset", index, size());
  const auto image_size = static_cast<size_t>(image_shape_.size());
  return std::span(pixels_).subspan(static_cast<size_t>(index) * image_size, image_size);
}

int32_t ImageDataset::Get(int64_t index, std::span<float> sample) const {
  const auto image = pixels(index);
  RequireRoom("ImageDataset", sample.size(), image.size());
  ScaleToUnit(image.data(), sample.data(), image.size());
  return Label(index);
}

int32_t ImageDataset::Label(int64_t index) const {
  RequireIndex("ImageDataset", index, size());
  return labels_[static_cast<size_t>(index)];
}

}  // namespace sluice
