// Tests the synthetic digits: each is a function of seed, subset and index, and they are hard enough to tell
// networks apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/rng.h"
#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr size_t kPixels = 784;

TEST(Digits, ASampleIsAFunctionOfSeedSubsetAndIndex) {
  const auto few = SyntheticDigits(Subset::kTrain, 4, 20);
  const auto more = SyntheticDigits(Subset::kTrain, 4, 200);
  for (int64_t i = 0; i < few->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(few->pixels(i), more->pixels(i))) << i;
    EXPECT_EQ(few->labels()[static_cast<size_t>(i)], more->labels()[static_cast<size_t>(i)]);
  }
  for (const auto& other : {SyntheticDigits(Subset::kTrain, 5, 20), SyntheticDigits(Subset::kTest, 4, 20)}) {
    for (int64_t i = 0; i < few->size(); ++i)
      EXPECT_FALSE(std::ranges::equal(few->pixels(i), other->pixels(i)));
  }
}

TEST(Digits, ClassesAreEvenAndInkIsThere) {
  const auto digits = SyntheticDigits(Subset::kTrain, 0, 5000);
  EXPECT_EQ(digits->sample_shape(), (Shape{1, 28, 28}));
  std::array<int, 10> counts{};
  std::vector<float> sample(kPixels);
  for (int64_t i = 0; i < digits->size(); ++i) {
    ++counts[static_cast<size_t>(digits->Get(i, sample))];
    double ink = 0;
    for (const float value : sample) {
      ASSERT_GE(value, 0.0f);
      ASSERT_LE(value, 1.0f);
      ink += value;
    }
    ASSERT_GT(ink, 8) << "sample " << i << " is empty";
    ASSERT_LT(ink, 400) << "sample " << i << " is full";
  }
  for (const int count : counts) EXPECT_NEAR(count, 500, 110);  // five standard deviations
}

TEST(Digits, DefaultSizesAndBadCounts) {
  EXPECT_EQ(SyntheticDigits(Subset::kTest)->size(), 4'000);
  EXPECT_THROW(SyntheticDigits(Subset::kTest, 0, 0), Error);
}

// Multinomial logistic regression by SGD on scaled pixels.
class LinearModel {
 public:
  std::array<float, 10> Probabilities(const std::vector<float>& x) const {
    std::array<float, 10> p{};
    for (size_t c = 0; c < 10; ++c) {
      p[c] = bias_[c];
      for (size_t i = 0; i < kPixels; ++i) p[c] += weight_[c * kPixels + i] * x[i];
    }
    const float top = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& value : p) sum += value = std::exp(value - top);
    for (float& value : p) value /= sum;
    return p;
  }
  void Train(const std::vector<float>& x, int32_t label, float lr) {
    auto error = Probabilities(x);
    error[static_cast<size_t>(label)] -= 1;
    for (size_t c = 0; c < 10; ++c) {
      bias_[c] -= lr * error[c];
      for (size_t i = 0; i < kPixels; ++i) weight_[c * kPixels + i] -= lr * error[c] * x[i];
    }
  }
  double Accuracy(const Dataset& data) const {
    std::vector<float> x(kPixels);
    int64_t right = 0;
    for (int64_t i = 0; i < data.size(); ++i) {
      const int32_t label = data.Get(i, x);
      const auto p = Probabilities(x);
      right += std::max_element(p.begin(), p.end()) - p.begin() == label;
    }
    return static_cast<double>(right) / static_cast<double>(data.size());
  }

 private:
  std::vector<float> weight_ = std::vector<float>(10 * kPixels);
  std::array<float, 10> bias_{};
};

TEST(Digits, ALinearModelLearnsButStaysBelow93Percent) {
  const auto train = SyntheticDigits(Subset::kTrain);
  const auto test = SyntheticDigits(Subset::kTest);
  LinearModel model;
  std::vector<float> x(kPixels);
  double best = 0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    const float lr = 0.01f * std::pow(0.6f, static_cast<float>(epoch));
    for (const uint64_t index :
         Rng(static_cast<uint64_t>(epoch)).Permutation(static_cast<uint64_t>(train->size()))) {
      const int32_t label = train->Get(static_cast<int64_t>(index), x);
      model.Train(x, label, lr);
    }
    best = std::max(best, model.Accuracy(*test));
  }
  EXPECT_LT(best, 0.93);
  EXPECT_GT(best, 0.50);  // the pictures do tell the classes apart
}

}  // namespace
}  // namespace sluice
