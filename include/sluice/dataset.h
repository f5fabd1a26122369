// Declares the interface of datasets, datasets in memory, and datasets made of other datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sluice/shape.h"

namespace sluice {

// A sequence of samples that are read by index. Several threads call the methods at the same time.
//
// A sample is an array of floats with a label. The label is a class, or itself an array of floats: a number
// to learn, several numbers, a mask. Token ids and other integers are exact up to 2^24.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;  // number of samples
  virtual const Shape& sample_shape() const = 0;
  virtual int64_t num_classes() const = 0;  // 0 where labels are arrays
  // Returns the shape of labels that are arrays, [] for one number; nullopt where labels are classes.
  virtual std::optional<Shape> label_shape() const { return std::nullopt; }
  // Writes sample `index` (0 <= index < size()) to `sample`, which has sample_shape().size() values. Returns
  // its class, 0 <= class < num_classes(), or 0 where labels are arrays. If Get throws, DataLoader::Next
  // throws the same.
  virtual int32_t Get(int64_t index, std::span<float> sample) const = 0;
  // As Get, for the sample as it is in `epoch` (>= 0): random transforms (sluice/transforms.h) draw new
  // numbers in each epoch. Where nothing is random, all epochs are equal.
  virtual int32_t GetInEpoch(int64_t /*epoch*/, int64_t index, std::span<float> sample) const {
    return Get(index, sample);
  }
  // For sequences that are padded to one length, sample_shape()[0]: the number of steps, from 1 on, after
  // which sample `index` and its label, if that has as many steps, hold padding alone. Samples of one such
  // number are a bucket: a DataLoader makes batches of one bucket where it can, and cuts each batch to the
  // steps of its largest bucket. nullopt: there are no buckets; all samples have one, or none. InMemory and
  // Transformed pass no buckets on.
  virtual std::optional<int64_t> Bucket(int64_t /*index*/) const { return std::nullopt; }
  // Returns the class of a sample. This implementation calls Get, which makes the whole sample.
  virtual int32_t Label(int64_t index) const;
  // Writes the label of a sample, label_shape()->size() values. Datasets whose labels are arrays override
  // it; this implementation throws Error(kFailedPrecondition).
  virtual void GetLabel(int64_t index, std::span<float> label) const;
};

// Says which part of a published data set is meant.
enum class Subset : uint8_t { kTrain, kTest };

// Samples in memory as floats, of any shape.
class ArrayDataset final : public Dataset {
 public:
  // `samples` has the values of one sample after another. num_classes = 0 means the largest label plus one.
  // Throws Error(kInvalidArgument) when samples, labels and shape do not fit each other, or a label is
  // outside 0..num_classes-1.
  ArrayDataset(Shape sample_shape, std::vector<float> samples, std::vector<int32_t> labels,
               int64_t num_classes = 0);
  // The same for labels that are arrays; `labels` has one after another, and label_shape is [] for one number
  // per sample. Neither shape may have an extent of 0.
  ArrayDataset(Shape sample_shape, std::vector<float> samples, Shape label_shape, std::vector<float> labels);

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return sample_shape_; }
  int64_t num_classes() const override { return num_classes_; }
  std::optional<Shape> label_shape() const override { return label_shape_; }
  int32_t Get(int64_t index, std::span<float> sample) const override;
  int32_t Label(int64_t index) const override;
  void GetLabel(int64_t index, std::span<float> label) const override;

  std::span<const float> sample(int64_t index) const;
  const std::vector<int32_t>& labels() const { return labels_; }  // for labels that are classes
  std::span<const float> label(int64_t index) const;              // for labels that are arrays

 private:
  Shape sample_shape_;
  std::vector<float> samples_;
  std::vector<int32_t> labels_;
  std::optional<Shape> label_shape_;
  std::vector<float> label_values_;
  int64_t size_;
  int64_t num_classes_ = 0;
};

// Images in memory as bytes. Get scales them to 0..1 (value / 255).
class ImageDataset final : public Dataset {
 public:
  // `pixels` has one image after another. Throws Error(kInvalidArgument) when pixels, labels and shape do not
  // fit each other, or a label is outside 0..num_classes-1.
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

// Select, Take and Concat return views, which keep the datasets alive and copy nothing. They throw
// Error(kInvalidArgument) for a null dataset.

// Returns the samples at `indices`, in that order; an index may occur several times. Throws
// Error(kInvalidArgument), which names the index, for an index outside the dataset.
std::shared_ptr<const Dataset> Select(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
// Returns the first `count` samples, or all if there are fewer, like Gluon's take. Throws
// Error(kInvalidArgument) unless count >= 1.
std::shared_ptr<const Dataset> Take(std::shared_ptr<const Dataset> dataset, int64_t count);
// Returns the samples of one dataset after another. Throws Error(kInvalidArgument) if there is no dataset, or
// if their sample shapes, label shapes or numbers of classes differ.
std::shared_ptr<const Dataset> Concat(std::vector<std::shared_ptr<const Dataset>> datasets);
// Reads every sample once, as in epoch 0, and keeps it as floats. It is for files that would otherwise be
// decoded at every Get.
std::shared_ptr<const ArrayDataset> InMemory(const Dataset& dataset);

}  // namespace sluice
