// Loss and metric over the current epoch. Internal to train/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/metric.h"
#include "sluice/ndarray.h"
#include "train/memory/epoch_sums.h"

namespace sluice::train {

struct StepResult {
  std::vector<NDArray> labels, predictions, losses;
  int64_t size = 0;
};

// Adds up the results of steps. Fit counts each step one step late, when its results have been
// computed, so that reading them does not wait.
class EpochScore {
 public:
  explicit EpochScore(std::unique_ptr<metric::MeanMetric> metric) : metric_(std::move(metric)) {}

  void Reset() {
    loss_.Reset();
    if (metric_ != nullptr) metric_->Reset();
  }
  void Add(StepResult result) { pending_.push_back(std::move(result)); }
  size_t pending() const { return pending_.size(); }
  // Counts the oldest step that was added. Returns the mean loss of its batch, or 0 for an empty batch.
  double Count() {
    const StepResult result = std::move(pending_.front());
    pending_.pop_front();
    const double before = loss_.sum();
    loss_.Update(result.labels, result.losses);
    if (metric_ != nullptr && result.size > 0)
      metric_->Update(result.labels, metric_->takes_losses() ? result.losses : result.predictions);
    const double mean = (loss_.sum() - before) / static_cast<double>(std::max<int64_t>(1, result.size));
    return result.size == 0 ? 0 : (std::isnan(mean) ? std::nan("") : mean);
  }

  double loss() const { return loss_.value(); }
  double score() const { return metric_ != nullptr ? metric_->value() : loss(); }
  int64_t samples() const { return loss_.count(); }

  EpochSums sums() const {
    EpochSums sums{.loss = loss_.sum(), .samples = loss_.count()};
    if (metric_ != nullptr)
      sums.score = metric_->sum(), sums.scored = metric_->count(), sums.metric = metric_->name();
    return sums;
  }
  // Sets the sums of a run that is resumed within the epoch. The sums of another metric are ignored.
  void GoOnFrom(const EpochSums& sums) {
    loss_.GoOnFrom(sums.loss, sums.samples);
    if (metric_ != nullptr && metric_->name() == sums.metric) metric_->GoOnFrom(sums.score, sums.scored);
  }

 private:
  metric::Loss loss_;
  const std::unique_ptr<metric::MeanMetric> metric_;  // null: none
  std::deque<StepResult> pending_;
};

}  // namespace sluice::train
