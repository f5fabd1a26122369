// The metrics of sluice/metric.h.
//
// Update waits for its arrays, checks that they fit, and adds a sum and a number of samples in float64,
// over all devices; value() is their quotient. Fit calls Update on the training thread one step late
// (train/epoch_score.h), so that it hardly waits.
#include "sluice/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/storage.h"

namespace sluice::metric {
namespace {

[[noreturn]] void ThrowInvalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

template <typename T>
std::vector<int64_t> WholeNumbers(const NDArray& array) {
  const std::vector<T> values = array.ToVector<T>();
  return {values.begin(), values.end()};
}

std::vector<int64_t> ReadLabels(const std::string& metric, const NDArray& labels) {
  switch (labels.dtype()) {
    case DType::kInt32:
      return WholeNumbers<int32_t>(labels);
    case DType::kInt64:
      return WholeNumbers<int64_t>(labels);
    case DType::kUInt8:
      return WholeNumbers<uint8_t>(labels);
    case DType::kFloat32:
      for (const float label : labels.ToVector()) {
        if (!(std::fabs(label) < 0x1p24f) || std::trunc(label) != label) {
          ThrowInvalid(StrCat(metric, ": label ", label, " is no class number"));
        }
      }
      return WholeNumbers<float>(labels);
    default:
      ThrowInvalid(
          StrCat(metric, ": labels are ", Name(labels.dtype()), "; use int32, int64, uint8 or float32"));
  }
}

// Returns how many classes come before `label` in descending order of score; of equal scores the lower class
// comes first, and NaN scores come last.
int64_t RankOf(int64_t label, std::span<const float> scores) {
  const float own = scores[static_cast<size_t>(label)];
  if (std::isnan(own)) return std::numeric_limits<int64_t>::max();
  int64_t rank = 0;
  for (size_t c = 0; c < scores.size(); ++c) {
    rank += scores[c] > own || (scores[c] == own && static_cast<int64_t>(c) < label);
  }
  return rank;
}

// Throws unless every array, one per device, is valid.
void RequireArrays(const std::string& metric, const char* which, const ArrayList& arrays) {
  for (const NDArray& array : arrays) internal::RequireArray(metric, StrCat("an array of ", which), array);
}

void RequireAsMany(const std::string& metric, const ArrayList& labels, const ArrayList& predictions) {
  RequireArrays(metric, "labels", labels);
  RequireArrays(metric, "predictions", predictions);
  if (labels.size() == predictions.size()) return;
  ThrowInvalid(StrCat(metric, ": ", labels.size(), " label arrays for ", predictions.size(),
                      " prediction arrays; give one per device"));
}

// Returns the extents that are not 1, without the first axis.
std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  for (size_t axis = 1; axis < shape.ndim(); ++axis) {
    if (shape[axis] != 1) extents.push_back(shape[axis]);
  }
  return extents;
}

// Whether labels and scores fit. Scores [rows, classes] take labels of any shape with as many elements
// as rows, in row-major order. Scores of more axes take labels with the same axes but the last.
bool LabelsFit(const Shape& labels, const Shape& scores) {
  if (labels.ndim() == 0 || scores.ndim() < 2) return false;
  if (scores.ndim() == 2) return labels.size() == scores[0];
  return labels[0] == scores[0] && WithoutOnes(labels) == WithoutOnes(scores.WithoutAxis(scores.ndim() - 1));
}

struct SumOfSamples {
  double sum = 0;
  int64_t samples = 0;
};

// Returns the sum over samples of each sample's mean of value(label, prediction) over its numbers.
template <typename Value>
SumOfSamples SumOverNumbers(const std::string& metric, const ArrayList& labels, const ArrayList& predictions,
                            Value value) {
  RequireAsMany(metric, labels, predictions);
  SumOfSamples all;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (labels[i].dtype() != DType::kFloat32 || predictions[i].dtype() != DType::kFloat32) {
      ThrowInvalid(StrCat(metric, ": labels are ", Name(labels[i].dtype()), ", predictions ",
                          Name(predictions[i].dtype()), "; expected float32"));
    }
    const Shape &label = labels[i].shape(), &prediction = predictions[i].shape();
    if (label.ndim() == 0 || prediction.ndim() == 0 || label[0] != prediction[0] ||
        WithoutOnes(label) != WithoutOnes(prediction)) {
      ThrowInvalid(StrCat(metric, ": labels of shape ", label, " do not fit predictions of shape ",
                          prediction, "; expected the same"));
    }
    const std::vector<float> wanted = labels[i].ToVector(), got = predictions[i].ToVector();
    const int64_t samples = label[0];
    double sum = 0;
    for (size_t j = 0; j < got.size(); ++j) sum += value(wanted[j], got[j]);
    if (!got.empty()) all.sum += sum / static_cast<double>(got.size()) * static_cast<double>(samples);
    all.samples += samples;
  }
  return all;
}

}  // namespace

double MeanMetric::value() const {
  const double mean = sum_ / static_cast<double>(count_);
  // quiet_NaN() has no sign, so that it is printed as "nan" and never as "-nan".
  return count_ == 0 || std::isnan(mean) ? std::numeric_limits<double>::quiet_NaN() : mean;
}

TopKAccuracy::TopKAccuracy(std::string name, int64_t k) : MeanMetric(std::move(name)), k_(k) {
  if (k < 1) ThrowInvalid(StrCat("top-k accuracy with k = ", k, "; k must be at least 1"));
}

void TopKAccuracy::Update(const ArrayList& labels, const ArrayList& predictions) {
  RequireAsMany(name(), labels, predictions);
  for (size_t i = 0; i < predictions.size(); ++i) UpdateOne(labels[i], predictions[i]);
}

void TopKAccuracy::UpdateOne(const NDArray& labels, const NDArray& predictions) {
  const Shape& shape = predictions.shape();
  if (!LabelsFit(labels.shape(), shape)) {
    ThrowInvalid(StrCat(name(), ": labels of shape ", labels.shape(), " do not fit predictions of shape ",
                        shape, "; expected n labels and [n, classes], or [n, ...] and [n, ..., classes]"));
  }
  const int64_t last = shape[shape.ndim() - 1];
  const std::vector<int64_t> classes = ReadLabels(name(), labels);
  const std::vector<float> scores = predictions.ToVector();
  const auto num_classes = static_cast<size_t>(last);
  int64_t hits = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] < 0 || classes[i] >= last) {
      ThrowInvalid(StrCat(name(), ": label ", classes[i], " of sample ", i, " is outside the ", num_classes,
                          " classes of the predictions"));
    }
    hits += RankOf(classes[i], std::span(scores).subspan(i * num_classes, num_classes)) < k_;
  }
  Add(static_cast<double>(hits), static_cast<int64_t>(classes.size()));
}

void BinaryAccuracy::Update(const ArrayList& labels, const ArrayList& predictions) {
  const auto [sum, samples] = SumOverNumbers(name(), labels, predictions, [&](float label, float prediction) {
    if (label != 0 && label != 1) ThrowInvalid(StrCat(name(), ": label ", label, " is neither 0 nor 1"));
    return (prediction > 0) == (label == 1) ? 1.0 : 0.0;
  });
  Add(sum, samples);
}

void ErrorMetric::Update(const ArrayList& labels, const ArrayList& predictions) {
  const auto [sum, samples] = SumOverNumbers(name(), labels, predictions, [&](float label, float prediction) {
    return ErrorOf(static_cast<double>(prediction) - static_cast<double>(label));
  });
  Add(sum, samples);
}

double MeanAbsoluteError::ErrorOf(double difference) const {
  return std::fabs(difference);
}

double RootMeanSquaredError::value() const {
  return std::sqrt(MeanMetric::value());
}

void Loss::Update(const ArrayList&, const ArrayList& predictions) {
  RequireArrays(name(), "losses", predictions);
  for (const NDArray& losses : predictions) {
    const std::vector<float> values = losses.ToVector();
    Add(std::accumulate(values.begin(), values.end(), 0.0), static_cast<int64_t>(values.size()));
  }
}

void Perplexity::Update(const ArrayList& labels, const ArrayList& losses) {
  RequireArrays(name(), "losses", losses);
  RequireArrays(name(), "labels", labels);
  if (labels.size() != losses.size()) {
    ThrowInvalid(StrCat(name(), ": ", labels.size(), " arrays of labels and ", losses.size(), " of losses"));
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    const std::vector<int64_t> tokens = ReadLabels(name(), labels[i]);
    const std::vector<float> sums = losses[i].ToVector();
    const auto ignored = ignored_label_ ? std::ranges::count(tokens, *ignored_label_) : 0;
    Add(std::accumulate(sums.begin(), sums.end(), 0.0), static_cast<int64_t>(tokens.size()) - ignored);
  }
}

double Perplexity::value() const {
  return std::exp(MeanMetric::value());
}

Composite& Composite::Add(std::shared_ptr<Metric> metric) {
  if (metric == nullptr) ThrowInvalid("Composite::Add: the metric is a null pointer");
  metrics_.push_back(std::move(metric));
  return *this;
}

void Composite::Update(const ArrayList& labels, const ArrayList& predictions) {
  for (const auto& metric : metrics_) metric->Update(labels, predictions);
}

std::vector<Score> Composite::Get() const {
  std::vector<Score> scores;
  for (const auto& metric : metrics_) {
    for (Score& score : metric->Get()) scores.push_back(std::move(score));
  }
  return scores;
}

void Composite::Reset() {
  for (const auto& metric : metrics_) metric->Reset();
}

}  // namespace sluice::metric
