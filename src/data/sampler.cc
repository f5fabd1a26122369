#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/data.h"
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

int64_t GlobalBatch(const SamplerConfig& config, int64_t num_workers) {
  int64_t global = 0;
  if (__builtin_mul_overflow(config.batch_size, num_workers, &global)) return config.num_samples;
  return std::min(global, config.num_samples);  // a batch larger than the set is the set
}

// batch / parts, rounded half to even.
int64_t RoundedShare(int64_t batch, int64_t parts) {
  const int64_t quotient = batch / parts;
  const int64_t twice = 2 * (batch % parts);
  return twice > parts || (twice == parts && quotient % 2 == 1) ? quotient + 1 : quotient;
}

}  // namespace

int64_t StepsPerEpoch(const SamplerConfig& config, int64_t num_workers) {
  Check(config, {.rank = 0, .num_workers = num_workers});
  const int64_t global = GlobalBatch(config, num_workers);
  return config.num_samples / global + (config.num_samples % global != 0 ? 1 : 0);
}

std::vector<uint64_t> EpochOrder(const SamplerConfig& config, int64_t epoch) {
  Check(config, Share{});
  const auto n = static_cast<uint64_t>(config.num_samples);
  if (config.shuffle) return Rng(DeriveSeed(config.seed, epoch)).Permutation(n);
  std::vector<uint64_t> identity(n);
  std::iota(identity.begin(), identity.end(), uint64_t{0});
  return identity;
}

Interval GlobalStep(const SamplerConfig& config, int64_t step, int64_t num_workers) {
  Require(step >= 0 && step < StepsPerEpoch(config, num_workers), "step", step, "a step of the epoch");
  const int64_t global = GlobalBatch(config, num_workers);
  return {step * global, std::min((step + 1) * global, config.num_samples)};
}

Interval ShareOfStep(const SamplerConfig& config, int64_t step, const Share& share) {
  Check(config, share);
  const Interval all = GlobalStep(config, step, share.num_workers);
  const int64_t each = RoundedShare(all.size(), share.num_workers);
  const bool last = share.rank == share.num_workers - 1;
  return {std::min(all.end, all.begin + share.rank * each),
          last ? all.end : std::min(all.end, all.begin + (share.rank + 1) * each)};
}

}  // namespace sluice
