// The order in which a job takes samples.
//
// Data parallelism depends on it: which samples a worker takes at a step is a pure function of (seed, epoch,
// step, membership), and the union of the workers' batches at step k is the batch that one process with the
// same global batch would take at step k.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/error.h"

namespace sluice {

// The place of this process among the workers.
struct Share {
  int64_t rank = 0;
  int64_t num_workers = 1;
  bool operator==(const Share&) const = default;
};

// Names the batch that is taken next.
struct Position {
  int64_t epoch = 0;
  int64_t step = 0;  // within the epoch
  auto operator<=>(const Position&) const = default;
};

// What happens to the samples at the end of an epoch that do not fill a global batch.
enum class LastBatch : uint8_t {
  kKeep,     // they form a smaller batch
  kDiscard,  // they are left out of this epoch; the order of the next epoch leaves out others
  // They begin the first batch of the next epoch, so that every batch is full. Those of the last epoch are
  // left out.
  kRollover,
};

std::string_view Name(LastBatch policy);  // "keep"
std::optional<LastBatch> LastBatchOf(std::string_view name);

// N samples; the global batch B is batch_size * num_workers, or N if that is smaller.
struct SamplerConfig {
  int64_t num_samples = 0;
  int64_t batch_size = 0;  // per worker
  uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last_batch = LastBatch::kKeep;
};

int64_t GlobalBatch(const SamplerConfig& config, int64_t num_workers);

// How the samples of an epoch are divided into batches. Together with seed and shuffle, this determines which
// samples a step within an epoch has.
struct Batching {
  int64_t num_samples = 0;
  int64_t global_batch = 0;
  LastBatch last_batch = LastBatch::kKeep;
  std::vector<double> class_weights = {};  // by class; empty: none
  bool operator==(const Batching&) const = default;
};

// Returns the number of steps of an epoch, which is never 0. kKeep: ceil(N / B). kDiscard: floor(N / B).
// kRollover: floor((epoch + 1) N / B) - floor(epoch N / B), which varies between epochs by at most one.
int64_t StepsPerEpoch(const SamplerConfig& config, int64_t num_workers, int64_t epoch = 0);
// Returns the position `count` steps after `start`, also across ends of epochs. `start` must be a step of its
// epoch.
Position PositionAfter(const SamplerConfig& config, const Position& start, uint64_t count,
                       int64_t num_workers);

// Returns the order of an epoch: a permutation of 0..N-1 that depends on (seed, epoch), or, without shuffle,
// the identity.
std::vector<uint64_t> EpochOrder(const SamplerConfig& config, int64_t epoch);
// Returns the order of an epoch with weighted classes: N independent draws that depend on (seed, epoch), each
// of sample i with probability class_weights[labels[i]] / sum over all samples. A sample may occur several
// times in an epoch, or not at all. Throws Error(kInvalidArgument) for weights that are negative or not
// finite, a label without a weight, and samples none of which has a weight above 0.
std::vector<uint64_t> WeightedEpochOrder(const SamplerConfig& config, int64_t epoch,
                                         std::span<const int32_t> labels,
                                         std::span<const double> class_weights);

// Rearranges the order of an epoch so that batches have samples of one bucket where they can
// (Dataset::Bucket). Samples keep their order within a bucket, and are divided into batches of all workers.
// What does not fill a batch comes after these, the largest buckets first, so that fewer batches than there
// are buckets have samples of several. With shuffle the full batches then come in an order that depends on
// (seed, epoch). `buckets` has one entry for each sample. Throws Error(kInvalidArgument) for kRollover, whose
// batches begin at other places in every epoch.
std::vector<uint64_t> BucketedOrder(const SamplerConfig& config, int64_t epoch,
                                    std::span<const uint64_t> order, std::span<const int64_t> buckets,
                                    int64_t num_workers);

// An interval of positions in the order of an epoch. Negative positions, which only kRollover has, count from
// the end of the previous epoch: -1 is its last sample.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};
// Returns the interval of all workers together: [step B, (step + 1) B), which ends at N at the latest. With
// kRollover the interval is moved back by (epoch N) mod B, the number of samples that the epochs before left
// over: the orders of all epochs, one after another, are divided every B samples.
Interval GlobalStep(const SamplerConfig& config, const Position& position, int64_t num_workers);
// Returns a worker's part of that interval. The parts of ranks 0..n-1 follow each other. A smaller last batch
// of b samples is divided as SplitByWorkLoad does with equal loads: each rank gets round(b / n) samples (half
// to even), the last rank gets what is then missing, and what is too much is clipped. A part may be empty.
Interval ShareOfStep(const SamplerConfig& config, const Position& position, const Share& share);

}  // namespace sluice
