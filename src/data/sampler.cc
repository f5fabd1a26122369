// The order of samples as arithmetic (formulas: sluice/sampler.h).
//
// All functions are pure: what a worker takes at a step depends on its arguments alone, so that every worker
// computes the same order without asking the others. With N samples, global batch B and kRollover, the
// orders of all epochs are laid end to end and cut every B samples; products of epochs and samples are 128
// bits wide. The DataLoader's threads and Fit call these functions, which throw Error(kInvalidArgument).
#include "sluice/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

void Require(bool condition, const char* what, int64_t value, const char* expected) {
  if (!condition)
    throw Error(ErrorCode::kInvalidArgument, StrCat(what, " is ", value, "; expected ", expected));
}

void Check(const SamplerConfig& config, const Share& share) {
  Require(config.num_samples > 0, "the number of samples", config.num_samples, "at least 1");
  Require(config.batch_size > 0, "batch_size", config.batch_size, "at least 1");
  Require(share.num_workers > 0, "num_workers", share.num_workers, "at least 1");
  Require(share.rank >= 0 && share.rank < share.num_workers, "rank", share.rank, "0 to num_workers - 1");
}

// epoch * num_samples may be larger than any 64-bit number.
__extension__ using Wide = __int128;

// With kRollover: how many global batches come before `epoch`.
Wide BatchesBefore(const SamplerConfig& config, int64_t global, int64_t epoch) {
  return Wide{epoch} * config.num_samples / global;
}

// With kRollover: how many samples the epochs before `epoch` have left over.
int64_t LeftOver(const SamplerConfig& config, int64_t global, int64_t epoch) {
  return static_cast<int64_t>(Wide{epoch} * config.num_samples % global);
}

// Returns the samples of each class.
std::vector<std::vector<uint64_t>> MembersOfClasses(std::span<const int32_t> labels, size_t num_classes) {
  std::vector<std::vector<uint64_t>> members(num_classes);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || static_cast<size_t>(labels[i]) >= num_classes) {
      throw Error(ErrorCode::kInvalidArgument, StrCat("sample ", i, " is of class ", labels[i],
                                                      ", but there are ", num_classes, " class_weights"));
    }
    members[static_cast<size_t>(labels[i])].push_back(i);
  }
  return members;
}

// Returns batch / parts, rounded half to even.
int64_t RoundedShare(int64_t batch, int64_t parts) {
  const int64_t quotient = batch / parts;
  const int64_t twice = 2 * (batch % parts);
  return twice > parts || (twice == parts && quotient % 2 == 1) ? quotient + 1 : quotient;
}

constexpr uint64_t kOrderOfBatches = 1;  // tells these random numbers from those of EpochOrder

constexpr std::array<std::string_view, 3> kLastBatchNames = {"keep", "discard", "rollover"};

}  // namespace

std::string_view Name(LastBatch policy) {
  return kLastBatchNames.at(static_cast<size_t>(policy));
}

std::optional<LastBatch> LastBatchOf(std::string_view name) {
  const auto found = std::ranges::find(kLastBatchNames, name);
  if (found == kLastBatchNames.end()) return std::nullopt;
  return static_cast<LastBatch>(found - kLastBatchNames.begin());
}

int64_t GlobalBatch(const SamplerConfig& config, int64_t num_workers) {
  int64_t global = 0;
  if (__builtin_mul_overflow(config.batch_size, num_workers, &global)) return config.num_samples;
  return std::min(global, config.num_samples);  // a batch has at most all samples
}

int64_t StepsPerEpoch(const SamplerConfig& config, int64_t num_workers, int64_t epoch) {
  Check(config, {.rank = 0, .num_workers = num_workers});
  Require(epoch >= 0, "epoch", epoch, "at least 0");
  const int64_t global = GlobalBatch(config, num_workers);
  switch (config.last_batch) {
    case LastBatch::kDiscard:
      return config.num_samples / global;
    case LastBatch::kRollover:
      return static_cast<int64_t>((Wide{LeftOver(config, global, epoch)} + config.num_samples) / global);
    default:
      return config.num_samples / global + (config.num_samples % global != 0 ? 1 : 0);
  }
}

Position PositionAfter(const SamplerConfig& config, const Position& start, uint64_t count,
                       int64_t num_workers) {
  const Wide step = Wide{start.step} + count;
  if (config.last_batch != LastBatch::kRollover) {
    const int64_t steps = StepsPerEpoch(config, num_workers);
    return {static_cast<int64_t>(start.epoch + step / steps), static_cast<int64_t>(step % steps)};
  }
  Check(config, {.rank = 0, .num_workers = num_workers});
  // Batch b, counted from epoch 0, lies in the first epoch with (epoch + 1) N >= (b + 1) B: the first whose
  // order ends at or after the batch's end.
  const int64_t global = GlobalBatch(config, num_workers);
  const Wide batch = BatchesBefore(config, global, start.epoch) + step;
  const auto epoch = static_cast<int64_t>(((batch + 1) * global - 1) / config.num_samples);
  return {epoch, static_cast<int64_t>(batch - BatchesBefore(config, global, epoch))};
}

std::vector<uint64_t> EpochOrder(const SamplerConfig& config, int64_t epoch) {
  Check(config, Share{});
  const auto n = static_cast<uint64_t>(config.num_samples);
  if (config.shuffle) return Rng(DeriveSeed(config.seed, epoch)).Permutation(n);
  std::vector<uint64_t> identity(n);
  std::iota(identity.begin(), identity.end(), uint64_t{0});
  return identity;
}

std::vector<uint64_t> WeightedEpochOrder(const SamplerConfig& config, int64_t epoch,
                                         std::span<const int32_t> labels,
                                         std::span<const double> class_weights) {
  Check(config, Share{});
  Require(labels.size() == static_cast<size_t>(config.num_samples), "the number of labels",
          static_cast<int64_t>(labels.size()), "one for each sample");
  const std::vector<std::vector<uint64_t>> members = MembersOfClasses(labels, class_weights.size());
  std::vector<double> ends;  // by class: the sum of the samples' weights up to this class
  for (size_t c = 0; c < members.size(); ++c) {
    if (!std::isfinite(class_weights[c]) || class_weights[c] < 0) {
      throw Error(ErrorCode::kInvalidArgument, StrCat("class_weights[", c, "] is ", class_weights[c],
                                                      "; expected a finite number of at least 0"));
    }
    ends.push_back((ends.empty() ? 0 : ends.back()) +
                   class_weights[c] * static_cast<double>(members[c].size()));
  }
  if (ends.empty() || !(ends.back() > 0) || !std::isfinite(ends.back())) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("class_weights make a sum of ", ends.empty() ? 0 : ends.back(),
                       " over all samples; expected a finite number above 0"));
  }
  Rng rng(DeriveSeed(config.seed, epoch));
  std::vector<uint64_t> order(labels.size());
  for (uint64_t& sample : order) {
    // `at` stays below the last end, so that a class is found and its weight is above 0.
    const double at = std::min(rng.Uniform(0, ends.back()), std::nextafter(ends.back(), 0));
    const auto& chosen =
        members[static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin())];
    sample = chosen[rng.Below(chosen.size())];
  }
  return order;
}

std::vector<uint64_t> BucketedOrder(const SamplerConfig& config, int64_t epoch,
                                    std::span<const uint64_t> order, std::span<const int64_t> buckets,
                                    int64_t num_workers) {
  Check(config, {.rank = 0, .num_workers = num_workers});
  if (config.last_batch == LastBatch::kRollover) {
    throw Error(ErrorCode::kInvalidArgument,
                "the last batch is to roll over, but samples with buckets form batches of their own in every "
                "epoch; keep or discard it");
  }
  Require(buckets.size() == static_cast<size_t>(config.num_samples), "the number of buckets",
          static_cast<int64_t>(buckets.size()), "one for each sample");
  std::map<int64_t, std::vector<uint64_t>, std::greater<>> members;
  for (const uint64_t sample : order) members[buckets[sample]].push_back(sample);
  const auto batch = static_cast<size_t>(GlobalBatch(config, num_workers));
  std::vector<uint64_t> batches, rest;
  for (const auto& [bucket, samples] : members) {
    const auto full = samples.begin() + static_cast<ptrdiff_t>(samples.size() / batch * batch);
    batches.insert(batches.end(), samples.begin(), full);
    rest.insert(rest.end(), full, samples.end());
  }
  batches.insert(batches.end(), rest.begin(), rest.end());
  if (!config.shuffle) return batches;
  const size_t full = batches.size() / batch;
  std::vector<uint64_t> shuffled;
  for (const uint64_t from : Rng(DeriveSeed(config.seed, epoch, kOrderOfBatches)).Permutation(full)) {
    const auto begin = batches.begin() + static_cast<ptrdiff_t>(from * batch);
    shuffled.insert(shuffled.end(), begin, begin + static_cast<ptrdiff_t>(batch));
  }
  shuffled.insert(shuffled.end(), batches.begin() + static_cast<ptrdiff_t>(full * batch), batches.end());
  return shuffled;
}

Interval GlobalStep(const SamplerConfig& config, const Position& position, int64_t num_workers) {
  const int64_t steps = StepsPerEpoch(config, num_workers, position.epoch);
  Require(position.step >= 0 && position.step < steps, "step", position.step, "a step of the epoch");
  const int64_t global = GlobalBatch(config, num_workers);
  const bool rolls = config.last_batch == LastBatch::kRollover;
  const int64_t begin = position.step * global - (rolls ? LeftOver(config, global, position.epoch) : 0);
  return {begin, std::min(begin + global, config.num_samples)};
}

Interval ShareOfStep(const SamplerConfig& config, const Position& position, const Share& share) {
  Check(config, share);
  const Interval all = GlobalStep(config, position, share.num_workers);
  const int64_t each = RoundedShare(all.size(), share.num_workers);
  const bool last = share.rank == share.num_workers - 1;
  return {std::min(all.end, all.begin + share.rank * each),
          last ? all.end : std::min(all.end, all.begin + (share.rank + 1) * each)};
}

}  // namespace sluice
