// The order in which a job takes samples.
//
// The promise of data parallelism rests here: which samples a worker takes at a step is a pure function of
// (seed, epoch, step, membership), and the union of the workers' batches at step k is the batch that one
// process with the same global batch would take at step k.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/error.h"

namespace sluice {

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
  auto operator<=>(const Position&) const = default;
};

// What becomes of the samples at the end of an epoch that do not fill a global batch.
enum class LastBatch : uint8_t {
  kKeep,      // they are a smaller batch
  kDiscard,   // they are left out of this epoch; the next one's order chooses others
  kRollover,  // they begin the next epoch's first batch, so that every batch is full; the last epoch's are
              // left
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

// How the samples of an epoch become batches: beside seed and shuffle, all that a step within an epoch
// depends on.
struct Batching {
  int64_t num_samples = 0;
  int64_t global_batch = 0;
  LastBatch last_batch = LastBatch::kKeep;
  std::vector<double> class_weights = {};  // by class; empty: none
  bool operator==(const Batching&) const = default;
};

// kKeep: ceil(N / B). kDiscard: floor(N / B). kRollover: floor((epoch + 1) N / B) - floor(epoch N / B), which
// differs from epoch to epoch by at most one. Never 0.
int64_t StepsPerEpoch(const SamplerConfig& config, int64_t num_workers, int64_t epoch = 0);
// `count` steps after `start`, over the ends of epochs. `start` must be a step of its epoch.
Position PositionAfter(const SamplerConfig& config, const Position& start, uint64_t count,
                       int64_t num_workers);

// The order of an epoch: a permutation of 0..N-1 that depends on (seed, epoch), or the identity.
std::vector<uint64_t> EpochOrder(const SamplerConfig& config, int64_t epoch);
// The order of an epoch with classes weighted: N independent draws that depend on (seed, epoch), each giving
// sample i with probability class_weights[labels[i]] / sum over all samples. A sample may come several times
// in an epoch, or not at all. Throws Error(kInvalidArgument) for weights that are negative or not finite, a
// label without a weight, or no sample with a weight above 0.
std::vector<uint64_t> WeightedEpochOrder(const SamplerConfig& config, int64_t epoch,
                                         std::span<const int32_t> labels,
                                         std::span<const double> class_weights);

// Positions in the order of an epoch. Below 0 (kRollover alone) they count from the end of the epoch before:
// -1 is its last sample.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};
// The interval of all workers together: [step B, (step + 1) B), cut off at N; with kRollover moved back by
// (epoch N) mod B, what the epochs before left over. So with kRollover all the orders, laid end to end, are
// cut every B samples.
Interval GlobalStep(const SamplerConfig& config, const Position& position, int64_t num_workers);
// A worker's part of it. The intervals of ranks 0..n-1 lie end to end. A smaller last batch of b samples is
// shared out as SplitByWorkLoad does with equal loads: round(b / n), half to even, what is missing to the
// last rank, overshoot clipped; a share may be empty.
Interval ShareOfStep(const SamplerConfig& config, const Position& position, const Share& share);

}  // namespace sluice
