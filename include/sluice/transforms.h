// Transforms of samples between their dataset and the batch. The threads of the DataLoader run them.
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

// A function of a sample. Several threads call the methods at the same time.
class Transform {
 public:
  virtual ~Transform() = default;
  // Returns the shape of the output for an input of shape `input`. Throws Error(kInvalidArgument) for a shape
  // that the transform does not accept.
  virtual Shape OutputShape(const Shape& input) const = 0;
  // Transforms `input`, of shape.size() values, to `output`, of OutputShape(shape).size() values; they do not
  // overlap. Random choices depend on `seed` alone.
  virtual void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
                     uint64_t seed) const = 0;
};
using TransformPtr = std::shared_ptr<const Transform>;

// Returns the dataset with every sample transformed. Random transforms depend on (seed, epoch, index) alone,
// not on the caller, the order or the number of threads. Get returns the sample as in epoch 0. Throws
// Error(kInvalidArgument) for a null pointer, or a sample shape that the transform does not accept.
std::shared_ptr<const Dataset> Transformed(std::shared_ptr<const Dataset> dataset, TransformPtr transform,
                                           uint64_t seed = 0);

// Images are [channels, height, width]. The functions throw Error(kInvalidArgument) for arguments out of
// range.
namespace transforms {

// Applies one transform after another, each with a seed of its own. Without parts it is the identity.
TransformPtr Compose(std::vector<TransformPtr> parts);
// x * factor, for any shape.
TransformPtr Scale(float factor);
// (x - mean[c]) / std[c], for any shape whose first axis is the channel. A single value is used for all
// channels.
TransformPtr Normalize(std::vector<float> mean, std::vector<float> std);
// A window of the image with `padding` pixels of value `fill` around it; all windows are equally likely. The
// padded image must be at least as large as the window.
TransformPtr RandomCrop(int64_t height, int64_t width, int64_t padding = 0, float fill = 0);
// The window in the middle, with its top left corner at (image - window) / 2 rounded down. The image must be
// at least as large as the window.
TransformPtr CenterCrop(int64_t height, int64_t width);
// Bilinear resizing, where pixels are squares with their values in the middle (PyTorch's
// align_corners=False). When the image becomes smaller, `antialias` makes every pixel count, as in Pillow,
// torchvision and F.interpolate(antialias=True); without it only four neighbours are mixed, as in OpenCV and
// MXNet.
TransformPtr Resize(int64_t height, int64_t width, bool antialias = true);
// Mirrors the image, left to right, with this probability.
TransformPtr RandomHorizontalFlip(double probability = 0.5);

}  // namespace transforms
}  // namespace sluice
