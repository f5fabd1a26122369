// A data set for linear regression, and a float64 reference of the training.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "sluice/data.h"

namespace sluice::testing {

inline constexpr int64_t kInputs = 3, kOutputs = 2;

// Returns points of kInputs normal numbers; the kOutputs labels are affine functions of them, plus noise.
inline std::shared_ptr<const ArrayDataset> NoisyLines(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> samples, labels;
  for (int64_t i = 0; i < count; ++i) {
    double x[kInputs];
    for (double& value : x) samples.push_back(static_cast<float>(value = rng.Normal()));
    labels.push_back(static_cast<float>(1 + 2 * x[0] - x[1] + 0.1 * rng.Normal()));
    labels.push_back(static_cast<float>(-3 + x[1] + 0.5 * x[2] + 0.1 * rng.Normal()));
  }
  return std::make_shared<ArrayDataset>(Shape{kInputs}, std::move(samples), Shape{kOutputs},
                                        std::move(labels));
}

// The parameters in float64: W [kOutputs, kInputs] and b [kOutputs].
struct Lines {
  std::vector<double> weight, bias;

  double Error(const ArrayDataset& data, int64_t i, int64_t output) const {
    double value = bias[static_cast<size_t>(output)];
    for (int64_t k = 0; k < kInputs; ++k)
      value += weight[static_cast<size_t>(output * kInputs + k)] * data.sample(i)[static_cast<size_t>(k)];
    return value - data.label(i)[static_cast<size_t>(output)];
  }
  // Returns the gradient, by W and b, of the mean over all samples of nn::L2Loss, which is
  // sum_j error_j^2 / (2 kOutputs).
  Lines Gradient(const ArrayDataset& data) const {
    Lines gradient{std::vector<double>(weight.size()), std::vector<double>(bias.size())};
    const auto share = 1 / static_cast<double>(data.size() * kOutputs);
    for (int64_t i = 0; i < data.size(); ++i) {
      for (int64_t j = 0; j < kOutputs; ++j) {
        const double error = Error(data, i, j) * share;
        gradient.bias[static_cast<size_t>(j)] += error;
        for (int64_t k = 0; k < kInputs; ++k)
          gradient.weight[static_cast<size_t>(j * kInputs + k)] +=
              error * data.sample(i)[static_cast<size_t>(k)];
      }
    }
    return gradient;
  }
  // Takes a step of gradient descent on all samples at once.
  void Step(const ArrayDataset& data, double learning_rate) {
    const Lines gradient = Gradient(data);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] -= learning_rate * gradient.weight[i];
    for (size_t i = 0; i < bias.size(); ++i) bias[i] -= learning_rate * gradient.bias[i];
  }
  // Returns the mean of f(error) over all samples and outputs.
  template <typename F>
  double Mean(const ArrayDataset& data, F f) const {
    double sum = 0;
    for (int64_t i = 0; i < data.size(); ++i) {
      for (int64_t j = 0; j < kOutputs; ++j) sum += f(Error(data, i, j));
    }
    return sum / static_cast<double>(data.size() * kOutputs);
  }
};

}  // namespace sluice::testing
