// Training data: where samples come from (Dataset) and the order in which a job takes them (DataLoader).
//
// The promise of data parallelism rests here: which samples a worker takes at a step is a pure function of
// (seed, epoch, step, membership), and the union of the workers' batches at step k is the batch that one
// process with the same global batch would take at step k.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/shape.h"

namespace sluice {

// Samples by index. Thread safety: Get is called by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;  // number of samples
  virtual const Shape& sample_shape() const = 0;
  virtual int64_t num_classes() const = 0;
  // Writes sample `index` (0 <= index < size()) to `sample` (sample_shape().size() values); returns its
  // class, 0 <= class < num_classes(). What it throws surfaces at DataLoader::Next.
  virtual int32_t Get(int64_t index, std::span<float> sample) const = 0;
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

  std::span<const uint8_t> pixels(int64_t index) const;
  const std::vector<uint8_t>& labels() const { return labels_; }

 private:
  Shape image_shape_;
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t num_classes_;
};

enum class Subset : uint8_t { kTrain, kTest };

// MNIST or Fashion-MNIST from the four IDX files in `folder`, plain or .gz, as tools/get_mnist.py fetches
// them: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// Images are [1, rows, columns]. Throws Error: kNotFound, or kDataLoss naming file, field, what was found and
// expected.
std::shared_ptr<const ImageDataset> LoadMnist(const std::string& folder, Subset subset);

// Ten classes of hand-drawn digits, [1, 28, 28], for a machine without any download. A sample is a function
// of (seed, subset, index) alone, its class included. A linear model stays below 93 % on the test set.
inline constexpr int64_t kDefaultTrainDigits = 20'000;
inline constexpr int64_t kDefaultTestDigits = 4'000;
// count < 0: the default of the subset. Throws Error(kInvalidArgument) for count 0.
std::shared_ptr<const ImageDataset> SyntheticDigits(Subset subset, uint64_t seed = 0, int64_t count = -1);

// Who this process is among the workers.
struct Share {
  int64_t rank = 0;
  int64_t num_workers = 1;
  bool operator==(const Share&) const = default;
};

// The next batch to be taken.
struct Position {
  int64_t epoch = 0;
  int64_t step = 0;  // within the epoch
  bool operator==(const Position&) const = default;
};

struct SamplerConfig {
  int64_t num_samples = 0;
  int64_t batch_size = 0;  // per worker; the global batch is batch_size * num_workers
  uint64_t seed = 0;
  bool shuffle = true;
};

// ceil(num_samples / global batch): the last step of an epoch may be smaller.
int64_t StepsPerEpoch(const SamplerConfig& config, int64_t num_workers);
// The order of an epoch: a permutation of 0..num_samples-1 that depends on (seed, epoch), or the identity.
std::vector<uint64_t> EpochOrder(const SamplerConfig& config, int64_t epoch);
// A worker's interval of the epoch's order at a step. The intervals of ranks 0..n-1 lie end to end. The last
// global batch B of an epoch is shared out as SplitByWorkLoad does with equal loads: round(B / n), half to
// even, what is missing to the last rank, overshoot clipped; a share may be empty.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};
Interval ShareOfStep(const SamplerConfig& config, int64_t step, const Share& share);
// The interval of all workers together.
Interval GlobalStep(const SamplerConfig& config, int64_t step, int64_t num_workers);

// One worker's part of one step.
struct Batch {
  Position position;
  Shape shape;  // [size, ...sample]; size may be 0
  std::vector<float> samples;
  std::vector<int32_t> labels;    // size
  std::vector<uint64_t> indices;  // of the samples in the dataset
  int64_t global_size = 0;        // over all workers
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

struct DataLoaderOptions {
  int64_t batch_size = 64;  // per worker
  bool shuffle = true;
  uint64_t seed = 0;
  Share share;
  int64_t num_epochs = -1;  // Next gives nothing after these many; < 0: never ends
  int num_threads = 1;      // make batches ahead
  int prefetch = 4;         // at most so many batches are made and not yet taken
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  // of Next
};

// Gives the batches of a worker in order, made ahead by its own threads.
//
// Thread safety: one caller. The destructor stops the threads after the samples they are at.
class DataLoader {
 public:
  // Throws Error(kInvalidArgument) for options out of range (num_threads and prefetch: at least 1) or no
  // samples.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next batch; nothing after the last epoch. Rethrows what the dataset threw for this batch, in its
  // turn, and again at every later call until Seek. Error(kDeadlineExceeded) when the batch is not ready in
  // time.
  std::optional<Batch> Next();
  // The next batch will be this one, cut for `share` when given. What was made ahead is dropped.
  // Throws Error(kInvalidArgument) for a step outside the epoch or a share out of range.
  void Seek(const Position& position, std::optional<Share> share = std::nullopt);

  Position position() const;  // of the batch that Next gives
  int64_t steps_per_epoch() const;
  const Dataset& dataset() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
