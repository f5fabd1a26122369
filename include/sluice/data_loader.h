// The DataLoader makes batches ahead, on threads of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/dataset.h"
#include "sluice/sampler.h"

namespace sluice {

// One worker's part of one step.
struct Batch {
  Position position;
  // [size, ...sample]; size may be 0. The samples' first axis is cut to the largest bucket of the batch of
  // all workers, if the data set has buckets (Dataset::Bucket); so are labels with as many steps.
  Shape shape;
  std::vector<float> samples;
  std::vector<int32_t> labels;      // size() classes; empty where labels are arrays
  Shape label_shape;                // where labels are arrays: [size, ...label]
  std::vector<float> label_values;  // the values of these arrays, one after another
  std::vector<uint64_t> indices;    // positions of the samples in the dataset
  int64_t global_size = 0;          // size of the batch of all workers
  int64_t first = 0;                // position of this part's first sample in the batch of all workers
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

struct DataLoaderOptions {
  int64_t batch_size = 64;  // per worker
  bool shuffle = true;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kKeep;
  // Weights by class. If there are any, the samples of an epoch are drawn with these weights, with
  // replacement (WeightedEpochOrder), and the constructor reads every label of the dataset. They need
  // `shuffle`.
  std::vector<double> class_weights;
  Share share;
  int64_t num_epochs = -1;  // Next returns nothing after so many epochs; < 0: epochs never end
  int num_threads = 1;      // threads that make batches
  // How many batches may be made or in the making before Next takes them; 0: two for each thread, at least 4.
  int prefetch = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  // how long Next waits
};

// Returns weights that make all classes equally likely: 1 / (number of samples of the class), 0 for a class
// without samples. Throws Error(kInvalidArgument) for a label that is not a class.
std::vector<double> BalancedClassWeights(const Dataset& dataset);

// Returns the batches of a worker in order; its own threads make them ahead.
//
// A sample is read as it is in the epoch from whose order it comes (Dataset::GetInEpoch). With kRollover the
// samples at the beginning of an epoch's first batch come from the epoch before.
//
// Thread safety: one thread at a time. The destructor waits until each thread has finished its sample.
class DataLoader {
 public:
  // Throws Error(kInvalidArgument) for options out of range (num_threads must be at least 1, prefetch at
  // least 0), for a dataset without samples, and for kRollover with a data set that has buckets, or for
  // buckets that its samples do not have. Rethrows what Dataset::Label and Dataset::Bucket throw.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // Waits for the next batch and returns it, or nothing after the last epoch. If the dataset threw while this
  // batch was made, Next rethrows that, and does so at every later call until Seek. Throws
  // Error(kDeadlineExceeded) when the batch is not ready within `timeout`.
  std::optional<Batch> Next();
  // Gives back a batch that the caller no longer needs, so that later batches use its memory.
  void Reuse(Batch batch);
  // Makes the batch at `position` the next one, divided for `share` if that is given, and drops the batches
  // that were made ahead. The first batch of an epoch is the same whatever batches were taken before. The
  // step of a later batch counts batches of the present global size. With kRollover and another number of
  // workers, the samples left over by the epochs before are those that these workers would have left over.
  // Throws Error(kInvalidArgument) for a step outside the epoch or a share out of range.
  void Seek(const Position& position, std::optional<Share> share = std::nullopt);

  Position position() const;        // the place of the batch that Next returns next
  int64_t steps_per_epoch() const;  // in the epoch of position()
  const Dataset& dataset() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
