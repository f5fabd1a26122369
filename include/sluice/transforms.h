// What is done to a sample between its dataset and the batch, by the DataLoader's threads.
//
//   auto train = Transformed(LoadCifar10(folder, Subset::kTrain),
//                            transforms::Compose({transforms::RandomCrop(32, 32, 4),
//                                                 transforms::RandomHorizontalFlip(),
//                                                 transforms::Normalize({.4914f, .4822f, .4465f},
//                                                                       {.2470f, .2435f, .2616f})}));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

// A function of a sample. Thread safety: both methods are called by several threads at once.
class Transform {
 public:
  virtual ~Transform() = default;
  // Throws Error(kInvalidArgument) for a shape that it does not take.
  virtual Shape OutputShape(const Shape& input) const = 0;
  // input has shape.size() values, output OutputShape(shape).size(); they do not overlap. Whatever is random
  // depends on `seed` alone.
  virtual void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
                     uint64_t seed) const = 0;
};
using TransformPtr = std::shared_ptr<const Transform>;

// The dataset with every sample transformed. Random transforms draw from (seed, epoch, index) alone: the same
// whoever asks, in whatever order, on however many threads. Get is that of epoch 0.
// Throws Error(kInvalidArgument) for null, or a sample shape that the transform does not take.
std::shared_ptr<const Dataset> Transformed(std::shared_ptr<const Dataset> dataset, TransformPtr transform,
                                           uint64_t seed = 0);

// Images are [channels, height, width]. Factories throw Error(kInvalidArgument) for arguments out of range.
namespace transforms {

// One after another; none is the identity. Each draws from a seed of its own.
TransformPtr Compose(std::vector<TransformPtr> parts);
// x * factor, for any shape.
TransformPtr Scale(float factor);
// (x - mean[c]) / std[c], for any shape whose first axis is the channel; one value serves every channel.
TransformPtr Normalize(std::vector<float> mean, std::vector<float> std);
// An equally likely window of the image with `padding` pixels of value `fill` around it. The padded image
// must be as large as the window.
TransformPtr RandomCrop(int64_t height, int64_t width, int64_t padding = 0, float fill = 0);
// The window in the middle, its top left corner at (image - window) / 2 rounded down; the image must be as
// large.
TransformPtr CenterCrop(int64_t height, int64_t width);
// Bilinear, pixels as squares with their values in the middle (PyTorch's align_corners=False). Making
// smaller, `antialias` lets every pixel count, as Pillow, torchvision and F.interpolate(antialias=True) do;
// without it four neighbours alone are mixed, as OpenCV and MXNet do.
TransformPtr Resize(int64_t height, int64_t width, bool antialias = true);
// Left and right change places with this probability.
TransformPtr RandomHorizontalFlip(double probability = 0.5);

}  // namespace transforms
}  // namespace sluice
