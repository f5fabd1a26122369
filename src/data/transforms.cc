// The transforms of samples (sluice/transforms.h).
//
// A transform is immutable, and everything random in Apply comes from its seed, so that the DataLoader's
// threads share it and a sample does not depend on which thread makes it. Constructors check arguments,
// OutputShape checks the input's shape; both throw Error(kInvalidArgument). Apply relies on those checks.
#include "sluice/transforms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/strings.h"
#include "data/resize.h"
#include "sluice/error.h"

namespace sluice::transforms {
namespace {

void Require(bool condition, const char* who, const std::string& what) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, StrCat(who, ": ", what));
}

void RequireImage(const char* who, const Shape& shape) {
  Require(shape.ndim() == 3 && shape.size() > 0, who,
          StrCat("samples have the shape ", shape, "; expected [channels, height, width]"));
}

void RequireExtents(const char* who, int64_t height, int64_t width) {
  constexpr int64_t kMostPixels = int64_t{1} << 28;  // as kMaxImageBytes
  Require(height >= 1 && width >= 1 && height <= kMostPixels / width, who,
          StrCat("height ", height, " and width ", width, " must be at least 1 and make at most ",
                 kMostPixels, " pixels"));
}

class ComposeTransform final : public Transform {
 public:
  explicit ComposeTransform(std::vector<TransformPtr> parts) : parts_(std::move(parts)) {
    for (size_t i = 0; i < parts_.size(); ++i)
      Require(parts_[i] != nullptr, "Compose", StrCat("part ", i, " is null"));
  }
  Shape OutputShape(const Shape& input) const override {
    Shape shape = input;
    for (const TransformPtr& part : parts_) shape = part->OutputShape(shape);
    return shape;
  }
  void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
             uint64_t seed) const override {
    if (parts_.empty()) std::copy(input.begin(), input.end(), output.begin());
    std::vector<float> current, next;
    Shape now = shape;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Shape then = parts_[i]->OutputShape(now);
      const bool last = i + 1 == parts_.size();
      if (!last) next.resize(static_cast<size_t>(then.size()));
      parts_[i]->Apply(now, i == 0 ? input : current, last ? output : next, DeriveSeed(seed, i));
      std::swap(current, next);
      now = then;
    }
  }

 private:
  const std::vector<TransformPtr> parts_;
};

class ScaleTransform final : public Transform {
 public:
  explicit ScaleTransform(float factor) : factor_(factor) {
    Require(std::isfinite(factor), "Scale", StrCat("the factor is ", factor, "; expected a finite number"));
  }
  Shape OutputShape(const Shape& input) const override { return input; }
  void Apply(const Shape&, std::span<const float> input, std::span<float> output, uint64_t) const override {
    for (size_t i = 0; i < input.size(); ++i) output[i] = input[i] * factor_;
  }

 private:
  const float factor_;
};

class NormalizeTransform final : public Transform {
 public:
  NormalizeTransform(std::vector<float> mean, std::vector<float> std)
      : mean_(std::move(mean)), std_(std::move(std)) {
    Require(!mean_.empty() && mean_.size() == std_.size(), "Normalize",
            StrCat(mean_.size(), " means and ", std_.size(),
                   " standard deviations; expected as many, at least 1"));
    for (size_t c = 0; c < mean_.size(); ++c) {
      Require(std::isfinite(mean_[c]) && std::isfinite(std_[c]) && std_[c] > 0, "Normalize",
              StrCat("channel ", c, " has mean ", mean_[c], " and standard deviation ", std_[c],
                     "; expected finite numbers, the second above 0"));
    }
  }
  Shape OutputShape(const Shape& input) const override {
    Require(mean_.size() == 1 || (input.ndim() >= 1 && input[0] == static_cast<int64_t>(mean_.size())),
            "Normalize",
            StrCat("samples have the shape ", input, ", the means are of ", mean_.size(), " channels"));
    return input;
  }
  void Apply(const Shape&, std::span<const float> input, std::span<float> output, uint64_t) const override {
    const size_t size = input.size() / mean_.size();
    for (size_t c = 0; c < mean_.size(); ++c) {
      for (size_t i = c * size; i < (c + 1) * size; ++i) output[i] = (input[i] - mean_[c]) / std_[c];
    }
  }

 private:
  const std::vector<float> mean_, std_;
};

// Copies the window of the image whose top left corner is (top, left) to `output`. Positions of the window
// outside the image become `fill`.
void CutWindow(const Shape& shape, std::span<const float> input, int64_t top, int64_t left, float fill,
               int64_t height, int64_t width, std::span<float> output) {
  std::fill(output.begin(), output.end(), fill);
  const int64_t first_row = std::max<int64_t>(0, -top), end_row = std::min(height, shape[1] - top);
  const int64_t first = std::max<int64_t>(0, -left), end = std::min(width, shape[2] - left);
  for (int64_t c = 0; c < shape[0] && first < end; ++c) {
    for (int64_t y = first_row; y < end_row; ++y) {
      const float* from = input.data() + (c * shape[1] + y + top) * shape[2] + left;
      std::copy(from + first, from + end, output.data() + (c * height + y) * width + first);
    }
  }
}

class RandomCropTransform final : public Transform {
 public:
  RandomCropTransform(int64_t height, int64_t width, int64_t padding, float fill)
      : height_(height), width_(width), padding_(padding), fill_(fill) {
    RequireExtents("RandomCrop", height, width);
    Require(padding >= 0 && padding <= 1'000'000, "RandomCrop",
            StrCat("the padding is ", padding, "; expected 0 to 1000000"));
  }
  Shape OutputShape(const Shape& input) const override {
    RequireImage("RandomCrop", input);
    Require(height_ <= input[1] + 2 * padding_ && width_ <= input[2] + 2 * padding_, "RandomCrop",
            StrCat("a window of ", height_, " x ", width_, " does not fit into ", input,
                   " with a padding of ", padding_));
    return {input[0], height_, width_};
  }
  void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
             uint64_t seed) const override {
    Rng rng(seed);
    const auto draw = [&](int64_t extent, int64_t window) {
      return static_cast<int64_t>(rng.Below(static_cast<uint64_t>(extent + 2 * padding_ - window + 1))) -
             padding_;
    };
    const int64_t top = draw(shape[1], height_);
    const int64_t left = draw(shape[2], width_);
    CutWindow(shape, input, top, left, fill_, height_, width_, output);
  }

 private:
  const int64_t height_, width_, padding_;
  const float fill_;
};

class CenterCropTransform final : public Transform {
 public:
  CenterCropTransform(int64_t height, int64_t width) : height_(height), width_(width) {
    RequireExtents("CenterCrop", height, width);
  }
  Shape OutputShape(const Shape& input) const override {
    RequireImage("CenterCrop", input);
    Require(height_ <= input[1] && width_ <= input[2], "CenterCrop",
            StrCat("a window of ", height_, " x ", width_, " does not fit into ", input));
    return {input[0], height_, width_};
  }
  void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
             uint64_t) const override {
    CutWindow(shape, input, (shape[1] - height_) / 2, (shape[2] - width_) / 2, 0, height_, width_, output);
  }

 private:
  const int64_t height_, width_;
};

class ResizeTransform final : public Transform {
 public:
  ResizeTransform(int64_t height, int64_t width, bool antialias)
      : height_(height), width_(width), antialias_(antialias) {
    RequireExtents("Resize", height, width);
  }
  Shape OutputShape(const Shape& input) const override {
    RequireImage("Resize", input);
    return {input[0], height_, width_};
  }
  void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
             uint64_t) const override {
    ResizePlanes(shape, input, OutputShape(shape), output, antialias_);
  }

 private:
  const int64_t height_, width_;
  const bool antialias_;
};

class FlipTransform final : public Transform {
 public:
  explicit FlipTransform(double probability) : probability_(probability) {
    Require(probability >= 0 && probability <= 1, "RandomHorizontalFlip",
            StrCat("the probability is ", probability, "; expected 0 to 1"));
  }
  Shape OutputShape(const Shape& input) const override {
    RequireImage("RandomHorizontalFlip", input);
    return input;
  }
  void Apply(const Shape& shape, std::span<const float> input, std::span<float> output,
             uint64_t seed) const override {
    std::copy(input.begin(), input.end(), output.begin());
    if (!Rng(seed).Chance(probability_)) return;
    for (auto row = output.begin(); row != output.end(); row += shape[2]) std::reverse(row, row + shape[2]);
  }

 private:
  const double probability_;
};

}  // namespace

TransformPtr Compose(std::vector<TransformPtr> parts) {
  return std::make_shared<ComposeTransform>(std::move(parts));
}
TransformPtr Scale(float factor) {
  return std::make_shared<ScaleTransform>(factor);
}
TransformPtr Normalize(std::vector<float> mean, std::vector<float> std) {
  return std::make_shared<NormalizeTransform>(std::move(mean), std::move(std));
}
TransformPtr RandomCrop(int64_t height, int64_t width, int64_t padding, float fill) {
  return std::make_shared<RandomCropTransform>(height, width, padding, fill);
}
TransformPtr CenterCrop(int64_t height, int64_t width) {
  return std::make_shared<CenterCropTransform>(height, width);
}
TransformPtr Resize(int64_t height, int64_t width, bool antialias) {
  return std::make_shared<ResizeTransform>(height, width, antialias);
}
TransformPtr RandomHorizontalFlip(double probability) {
  return std::make_shared<FlipTransform>(probability);
}

}  // namespace sluice::transforms
