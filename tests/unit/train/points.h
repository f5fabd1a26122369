// A data set for softmax regression: normal random points; class c shifts feature c by 1.
#pragma once

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "sluice/data.h"

namespace sluice::testing {

inline constexpr size_t kFeatures = 4, kClasses = 3;

class RandomPoints final : public Dataset {
 public:
  RandomPoints(int64_t count, uint64_t seed) {
    Rng rng(seed);
    for (int64_t i = 0; i < count; ++i) {
      labels_.push_back(static_cast<int32_t>(rng.Below(kClasses)));
      for (size_t f = 0; f < kFeatures; ++f) values_.push_back(static_cast<float>(rng.Normal()));
      values_[values_.size() - kFeatures + static_cast<size_t>(labels_.back())] += 1;
    }
  }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return kClasses; }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    const float* first = values_.data() + static_cast<size_t>(index) * kFeatures;
    std::copy(first, first + kFeatures, sample.begin());
    return labels_[static_cast<size_t>(index)];
  }

 private:
  const Shape shape_{kFeatures};
  std::vector<float> values_;
  std::vector<int32_t> labels_;
};

}  // namespace sluice::testing
