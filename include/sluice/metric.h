// Metrics measure how well a model predicts; they add up over batches and devices.
//
//   metric::Accuracy accuracy;
//   accuracy.Update(labels, predictions);   // one array per device
//   accuracy.value();                       // 0.9891
//
// Update waits for its arrays. It throws Error(kInvalidArgument), which names the metric and both shapes, for
// labels and predictions that do not fit each other.
//
// Where labels are classes, they are class numbers (int32, int64, uint8, or float32 with integer values).
// Predictions are float32 scores whose last axis is the classes. n labels of any shape fit predictions
// [n, classes], in row-major order: labels [2, 3] fit [6, classes]. Labels [n, steps] fit predictions
// [n, steps, classes]. Each label counts as a sample.
//
// Where labels are numbers, labels and predictions are float32, and n is the first axis. Their shapes are the
// same except for axes of extent 1, as for the losses (sluice/loss.h).
//
// Thread safety: one metric may be used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/array_list.h"

namespace sluice::metric {

struct Score {
  std::string name;
  double value = 0;
};

class Metric {
 public:
  virtual ~Metric() = default;
  // labels[i] belongs to predictions[i].
  virtual void Update(const ArrayList& labels, const ArrayList& predictions) = 0;
  virtual std::vector<Score> Get() const = 0;  // NaN before the first sample
  virtual void Reset() = 0;
};

// A mean over samples. Fit makes one for training and one for each evaluation, and calls Update for every
// batch that has samples. When a run is resumed within an epoch, Fit restores the metric from sum and count
// alone (GoOnFrom).
class MeanMetric : public Metric {
 public:
  std::vector<Score> Get() const override { return {{name_, value()}}; }
  void Reset() override { sum_ = 0, count_ = 0; }

  const std::string& name() const { return name_; }
  virtual double value() const;
  virtual bool higher_is_better() const { return true; }
  // Whether Update takes the losses of the samples, as the run's loss gives them, in place of predictions.
  virtual bool takes_losses() const { return false; }
  double sum() const { return sum_; }       // workers may add up sum and count to the mean of the whole job
  int64_t count() const { return count_; }  // samples
  void GoOnFrom(double sum, int64_t count) { sum_ = sum, count_ = count; }

 protected:
  explicit MeanMetric(std::string name) : name_(std::move(name)) {}
  void Add(double sum, int64_t count) { sum_ += sum, count_ += count; }

 private:
  const std::string name_;
  double sum_ = 0;
  int64_t count_ = 0;
};

// The share of samples whose label is among the k highest scores. Among equal scores the lower class ranks
// first.
class TopKAccuracy : public MeanMetric {
 public:
  explicit TopKAccuracy(int64_t k) : TopKAccuracy("top_" + std::to_string(k) + "_accuracy", k) {}
  void Update(const ArrayList& labels, const ArrayList& predictions) override;

 protected:
  TopKAccuracy(std::string name, int64_t k);

 private:
  void UpdateOne(const NDArray& labels, const NDArray& predictions);
  const int64_t k_;
};

class Accuracy final : public TopKAccuracy {
 public:
  Accuracy() : TopKAccuracy("accuracy", 1) {}
};

// The share of correct predictions for labels of 0 or 1. Predictions are those before the sigmoid: a value
// above 0 counts as 1, all others, also NaN, as 0. A sample of several numbers counts with its correct share.
class BinaryAccuracy final : public MeanMetric {
 public:
  BinaryAccuracy() : MeanMetric("binary_accuracy") {}
  void Update(const ArrayList& labels, const ArrayList& predictions) override;
};

// The mean over samples of an error, which for a sample is the mean over its numbers. Lower is better.
class ErrorMetric : public MeanMetric {
 public:
  void Update(const ArrayList& labels, const ArrayList& predictions) override;
  bool higher_is_better() const override { return false; }

 protected:
  using MeanMetric::MeanMetric;
  virtual double ErrorOf(double difference) const = 0;
};

class MeanAbsoluteError final : public ErrorMetric {
 public:
  MeanAbsoluteError() : ErrorMetric("mae") {}

 private:
  double ErrorOf(double difference) const override;
};

class MeanSquaredError final : public ErrorMetric {
 public:
  MeanSquaredError() : ErrorMetric("mse") {}

 private:
  double ErrorOf(double difference) const override { return difference * difference; }
};

// The square root of the mean squared error over all samples.
class RootMeanSquaredError final : public ErrorMetric {
 public:
  RootMeanSquaredError() : ErrorMetric("rmse") {}
  double value() const override;

 private:
  double ErrorOf(double difference) const override { return difference * difference; }
};

// The mean of loss values, which Update gets as predictions (one per sample, or one mean per device). Labels
// are not used and may be empty.
class Loss final : public MeanMetric {
 public:
  Loss() : MeanMetric("loss") {}
  void Update(const ArrayList& labels, const ArrayList& predictions) override;
  bool higher_is_better() const override { return false; }
};

// The perplexity of a language model: e to the mean over tokens of -log p(token). Update gets the losses of a
// nn::SoftmaxCrossEntropyLoss with sums_steps and the same ignored_label; tokens are the labels but the
// ignored ones.
class Perplexity final : public MeanMetric {
 public:
  explicit Perplexity(std::optional<int64_t> ignored_label = std::nullopt)
      : MeanMetric("perplexity"), ignored_label_(ignored_label) {}
  void Update(const ArrayList& labels, const ArrayList& losses) override;
  double value() const override;
  bool higher_is_better() const override { return false; }
  bool takes_losses() const override { return true; }

 private:
  const std::optional<int64_t> ignored_label_;
};

// Makes a metric. Training and each evaluation use metrics of their own.
using Factory = std::function<std::unique_ptr<MeanMetric>()>;
template <typename M>
std::unique_ptr<MeanMetric> New() {
  return std::make_unique<M>();
}

// Several metrics that are updated with the same arrays.
class Composite final : public Metric {
 public:
  Composite& Add(std::shared_ptr<Metric> metric);  // Error(kInvalidArgument) for null
  void Update(const ArrayList& labels, const ArrayList& predictions) override;
  std::vector<Score> Get() const override;  // in the order of Add
  void Reset() override;

 private:
  std::vector<std::shared_ptr<Metric>> metrics_;
};

}  // namespace sluice::metric
