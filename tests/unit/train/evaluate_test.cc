#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/fit.h"
#include "unit/data/meeting.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

// The class whose score is largest, sample by sample.
double AccuracyOneByOne(nn::Layer& net, const Dataset& data) {
  double right = 0;
  std::vector<float> sample(static_cast<size_t>(data.sample_shape().size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    const int32_t label = data.Get(i, sample);
    const auto scores =
        net(NDArray::From(std::span<const float>(sample), data.sample_shape().WithAxis(0, 1))).ToVector();
    right += std::max_element(scores.begin(), scores.end()) - scores.begin() == label;
  }
  return right / static_cast<double>(data.size());
}

class EvaluateTest : public ::testing::Test {
 protected:
  EvaluateTest() { net_.CollectParams().Initialize(Cpus(2), nullptr, 4); }
  nn::Dense net_{int64_t{kClasses}};
  const std::shared_ptr<const Dataset> data_ = std::make_shared<RandomPoints>(600, 2);  // three batches
};

TEST_F(EvaluateTest, EveryThreadMakesBatches) {
  const EvalReport plain = Evaluate(net_, *data_, Cpus(2));
  const EvalReport met = Evaluate(net_, Meeting(data_, 3), Cpus(2), {.loader_threads = 3});
  EXPECT_EQ(met.score, plain.score);
  EXPECT_EQ(met.loss, plain.loss);
  EXPECT_DOUBLE_EQ(plain.score, AccuracyOneByOne(net_, *data_));
}

TEST_F(EvaluateTest, TheMeanOfNothingIsNoNumber) {
  EXPECT_TRUE(std::isnan(Evaluate(net_, RandomPoints(0, 1), Cpus(2)).score));
}

}  // namespace
}  // namespace sluice::testing
