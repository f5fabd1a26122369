// The sums of gradients that a Trainer with update_on_kvstore = false takes from its store: what the
// store divides them by, and what an update multiplies them by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "train/trainer/tracked_parameter.h"

namespace sluice::internal {

// The arguments must outlive it. All methods run on the training thread.
class GradientSums {
 public:
  // `max_norm` is TrainerOptions::clip_global_norm.
  GradientSums(KVStore& store, const std::vector<TrackedParameter>& tracked, double max_norm)
      : store_(store), tracked_(tracked), max_norm_(max_norm) {}

  // Throws Error(kFailedPrecondition) when the store does not sum, since it updates by itself. All
  // workers must call it, and wait for each other. Before it, a GradientSums counts one device.
  void RequireSums();

  // Returns what the store shall divide the sums by. A float16 sum over all devices may be infinite even
  // if their mean is not, so with float16 parameters this is the least power of two that is not below the
  // number of all workers' devices or not below the batch size. A division by a power of two rounds only
  // the smallest numbers, and the addends are as coarse there. Without float16 parameters it is 1.
  double DivisorFor(int64_t batch_size) const;
  // Throws Error(kInvalidArgument) unless that is 1 for every batch size.
  void RequireNoDivisor() const;
  // What the store has divided the sums of this step by; 1 where nobody has set it since the last update.
  double divisor() const { return divisor_; }
  void set_divisor(double divisor) { divisor_ = divisor; }

  // Returns what the sums are multiplied by: divisor() / batch_size, and less when they are clipped, for
  // which it waits for them. Every context has the same sums, so the first one's are measured.
  double ScaleOfUpdate(int64_t batch_size);

  // Since clipping waits for all gradients anyway, all workers also take rank 0's learning rate then,
  // which callbacks may have set on rank 0 alone: they push theirs before they measure, and read rank 0's
  // afterwards.
  bool shares_rate() const { return max_norm_ > 0 && store_.num_workers() > 1; }
  void PushRate(double learning_rate);
  double ReadRate() const { return rate_.ToVector<double>().front(); }

 private:
  void WarnOfNorm(double norm, const std::string& parameter);

  KVStore& store_;
  const std::vector<TrackedParameter>& tracked_;
  const double max_norm_;
  int64_t devices_ = 1;  // all workers' together
  double divisor_ = 1;
  NDArray rate_;
  bool warned_ = false;
};

}  // namespace sluice::internal
