// How well a model does, added up over batches and devices.
//
//   metric::Accuracy accuracy;
//   accuracy.Update(labels, predictions);   // one array per device
//   accuracy.value();                       // 0.9891
//
// Update waits for its arrays. What does not fit is Error(kInvalidArgument) naming the metric and both
// shapes. Of classes: labels are class numbers (int32, int64, uint8 or whole float32 numbers), predictions
// scores of float32 whose last axis is the classes: n labels in any shape with [n, classes] (labels [2, 3]
// with [6, classes], row by row), or [n, steps] with [n, steps, classes]. Each label counts as a sample.
// Of numbers: labels and predictions of float32 with n first and the same shape, but for axes of extent 1, as
// the losses' (sluice/loss.h).
//
// Thread safety: one metric from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice::metric {

struct Score {
  std::string name;
  double value = 0;
};

class Metric {
 public:
  virtual ~Metric() = default;
  // labels[i] belongs to predictions[i].
  virtual void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) = 0;
  void Update(const NDArray& labels, const NDArray& predictions) {
    Update(std::vector{labels}, std::vector{predictions});
  }
  virtual std::vector<Score> Get() const = 0;  // NaN before the first sample
  virtual void Reset() = 0;
};

// A mean over samples. One that Fit uses is made for training and for each evaluation, hears of every batch
// that has samples, and goes on within an epoch from sum and count alone: GoOnFrom.
class MeanMetric : public Metric {
 public:
  std::vector<Score> Get() const override { return {{name_, value()}}; }
  void Reset() override { sum_ = 0, count_ = 0; }

  const std::string& name() const { return name_; }
  virtual double value() const;
  virtual bool higher_is_better() const { return true; }
  double sum() const { return sum_; }       // with count, what workers add up to a figure of the whole job
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

// The share of samples whose label is among the k highest scores; of equal scores the lower class comes
// first.
class TopKAccuracy : public MeanMetric {
 public:
  explicit TopKAccuracy(int64_t k) : TopKAccuracy("top_" + std::to_string(k) + "_accuracy", k) {}
  using Metric::Update;
  void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) override;

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

// The share of numbers on the label's side: predictions before the sigmoid, of which those above 0 are taken
// for 1 and all others, NaN too, for 0; labels 0 or 1. Of several numbers a sample the share among those.
class BinaryAccuracy final : public MeanMetric {
 public:
  BinaryAccuracy() : MeanMetric("binary_accuracy") {}
  using Metric::Update;
  void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) override;
};

// The mean over samples of an error, itself a mean over the numbers of each: less is better.
class ErrorMetric : public MeanMetric {
 public:
  using Metric::Update;
  void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) override;
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

// The root of the mean over all samples.
class RootMeanSquaredError final : public ErrorMetric {
 public:
  RootMeanSquaredError() : ErrorMetric("rmse") {}
  double value() const override;

 private:
  double ErrorOf(double difference) const override { return difference * difference; }
};

// The mean of the loss values handed in as predictions (per sample, or one mean per device). Labels are not
// looked at and may be empty.
class Loss final : public MeanMetric {
 public:
  Loss() : MeanMetric("loss") {}
  using Metric::Update;
  void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) override;
  bool higher_is_better() const override { return false; }
};

// Makes a metric: training and each evaluation have their own.
using Factory = std::function<std::unique_ptr<MeanMetric>()>;
template <typename M>
std::unique_ptr<MeanMetric> New() {
  return std::make_unique<M>();
}

// Several metrics fed with the same arrays.
class Composite final : public Metric {
 public:
  using Metric::Update;
  Composite& Add(std::shared_ptr<Metric> metric);  // Error(kInvalidArgument) for null
  void Update(const std::vector<NDArray>& labels, const std::vector<NDArray>& predictions) override;
  std::vector<Score> Get() const override;  // in the order of Add
  void Reset() override;

 private:
  std::vector<std::shared_ptr<Metric>> metrics_;
};

}  // namespace sluice::metric
