// Batches made ahead by threads.
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
  Shape shape;  // [size, ...sample]; size may be 0
  std::vector<float> samples;
  std::vector<int32_t> labels;      // size classes; none where labels are arrays
  Shape label_shape;                // of labels that are arrays: [size, ...label]
  std::vector<float> label_values;  // theirs, one after another
  std::vector<uint64_t> indices;    // of the samples in the dataset
  int64_t global_size = 0;          // over all workers
  int64_t first = 0;                // place of this part\'s first sample in the batch of all workers
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

struct DataLoaderOptions {
  int64_t batch_size = 64;  // per worker
  bool shuffle = true;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kKeep;
  // By class; not empty: an epoch is drawn with these weights, with replacement (WeightedEpochOrder). The
  // constructor then asks the dataset for every label. Needs shuffle.
  std::vector<double> class_weights;
  Share share;
  int64_t num_epochs = -1;  // Next gives nothing after these many; < 0: never ends
  int num_threads = 1;      // make batches ahead
  // At most so many batches are made, or being made, and not yet taken; 0: two for each thread, at least 4.
  int prefetch = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(2);  // of Next
};

// Weights that make every class equally likely: 1 / (number of its samples), 0 for a class without any.
// Throws Error(kInvalidArgument) for a label that is no class.
std::vector<double> BalancedClassWeights(const Dataset& dataset);

// Gives the batches of a worker in order, made ahead by its own threads.
//
// A sample is made as it is in the epoch whose order it comes from: with kRollover, those at the head of an
// epoch's first batch are as in the epoch before.
//
// Thread safety: one caller. The destructor stops the threads after the samples they are at.
class DataLoader {
 public:
  // Throws Error(kInvalidArgument) for options out of range (num_threads: at least 1, prefetch: 0) or no
  // samples. Rethrows what Dataset::Label throws.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next batch; nothing after the last epoch. Rethrows what the dataset threw for this batch, in its
  // turn, and again at every later call until Seek. Error(kDeadlineExceeded) when the batch is not ready in
  // time.
  std::optional<Batch> Next();
  // Hands back a batch that is done with: later ones take its memory, and none anew.
  void Reuse(Batch batch);
  // The next batch will be this one, cut for `share` when given. What was made ahead is dropped.
  // The first batch of an epoch means the same whatever was taken before; a later one counts batches, of
  // today's global batch. With kRollover and another number of workers, what the epochs before have left over
  // is what it would be had these workers taken them. Throws Error(kInvalidArgument) for a step outside the
  // epoch or a share out of range.
  void Seek(const Position& position, std::optional<Share> share = std::nullopt);

  Position position() const;        // of the batch that Next gives
  int64_t steps_per_epoch() const;  // of the epoch of position()
  const Dataset& dataset() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
