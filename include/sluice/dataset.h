// Datasets: samples by index, in memory or made of other datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/shape.h"

namespace sluice {

// Samples by index. Thread safety: every method is called by several threads at once.
//
// A sample is one array of floats with a label: a class, or an array of floats itself (a number to learn,
// several, a mask). Token ids and other whole numbers are exact up to 2^24.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;  // number of samples
  virtual const Shape& sample_shape() const = 0;
  virtual int64_t num_classes() const = 0;  // 0 where labels are arrays
  // Of labels that are arrays: [] for one number. None: labels are classes.
  virtual std::optional<Shape> label_shape() const { return std::nullopt; }
  // Writes sample `index` (0 <= index < size()) to `sample` (sample_shape().size() values); returns its
  // class, 0 <= class < num_classes(), or 0 where labels are arrays. What it throws surfaces at
  // DataLoader::Next.
  virtual int32_t Get(int64_t index, std::span<float> sample) const = 0;
  // As Get, the way the sample is in `epoch` (>= 0): random transforms (sluice/transforms.h) draw anew in
  // each. Where nothing is random, every epoch is the same.
  virtual int32_t GetInEpoch(int64_t /*epoch*/, int64_t index, std::span<float> sample) const {
    return Get(index, sample);
  }
  // The class of a sample. This one makes the whole sample for it.
  virtual int32_t Label(int64_t index) const;
  // Writes the label of a sample, label_shape()->size() values. For data sets whose labels are arrays; here
  // Error(kFailedPrecondition).
  virtual void GetLabel(int64_t index, std::span<float> label) const;
};

// The part of a published data set.
enum class Subset : uint8_t { kTrain, kTest };

// Floats in memory, of any sample shape.
class ArrayDataset final : public Dataset {
 public:
  // samples: one after another. num_classes 0: the largest label and one. Throws Error(kInvalidArgument) when
  // samples, labels and shape do not fit each other or a label is outside 0..num_classes-1.
  ArrayDataset(Shape sample_shape, std::vector<float> samples, std::vector<int32_t> labels,
               int64_t num_classes = 0);
  // Labels that are arrays, one after another; [] for one number a sample. Neither shape may be of extent 0.
  ArrayDataset(Shape sample_shape, std::vector<float> samples, Shape label_shape, std::vector<float> labels);

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return sample_shape_; }
  int64_t num_classes() const override { return num_classes_; }
  std::optional<Shape> label_shape() const override { return label_shape_; }
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;
  void GetLabel(int64_t index, std::span<float> label) const override;

  std::span<const float> sample(int64_t index) const;
  const std::vector<int32_t>& labels() const { return labels_; }  // classes
  std::span<const float> label(int64_t index) const;              // an array

 private:
  Shape sample_shape_;
  std::vector<float> samples_;
  std::vector<int32_t> labels_;
  std::optional<Shape> label_shape_;
  std::vector<float> label_values_;
  int64_t size_;
  int64_t num_classes_ = 0;
};

// Images in memory as bytes; Get scales them to 0..1 (value / 255).
class ImageDataset final : public Dataset {
 public:
  // pixels: one image after another. Throws Error(kInvalidArgument) when pixels, labels and shape do not fit
  // each other or a label is outside 0..num_classes-1.
  ImageDataset(Shape image_shape, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
               int64_t num_classes = 10);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const Shape& sample_shape() const override { return image_shape_; }
  int64_t num_classes() const override { return num_classes_; }
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;

  std::span<const uint8_t> pixels(int64_t index) const;
  const std::vector<uint8_t>& labels() const { return labels_; }

 private:
  Shape image_shape_;
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t num_classes_;
};

// Views: datasets that keep others alive and copy nothing. All throw Error(kInvalidArgument) for a null
// dataset.

// The samples at `indices`, in that order; one may come twice. Throws Error(kInvalidArgument) for an index
// outside the dataset, naming it.
std::shared_ptr<const Dataset> Select(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
// The first `count` samples, or all where there are fewer, as Gluon's take. Throws Error(kInvalidArgument)
// unless count >= 1.
std::shared_ptr<const Dataset> Take(std::shared_ptr<const Dataset> dataset, int64_t count);
// One dataset after another. Throws Error(kInvalidArgument) for none, or when their sample shapes, label
// shapes or numbers of classes differ.
std::shared_ptr<const Dataset> Concat(std::vector<std::shared_ptr<const Dataset>> datasets);
// Every sample, as in epoch 0, read once and kept as floats: for files that are decoded at every Get.
std::shared_ptr<const ArrayDataset> InMemory(const Dataset& dataset);

}  // namespace sluice
