#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/corpus.h"
#include "sluice/fit.h"
#include "sluice/models.h"
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

// Each part of a batch carries states of its own, on one context as on several.
TEST(EvaluateCarriedStatesTest, AContextMayBeNamedTwice) {
  const Corpus corpus = SyntheticSentences(Subset::kTest, 1, 100);
  const Vocabulary vocabulary(corpus);
  const auto text = ContinuousText(corpus, vocabulary, {.rows = 4, .steps = 5});
  nn::Sequential net = nn::LanguageModel(
      {.vocabulary = vocabulary.size(), .embedding = 6, .hidden = 8, .layers = 1, .carries_state = true});
  net.CollectParams().Initialize({cpu(0)}, std::make_shared<nn::Uniform>(1.0), 4);
  const EvaluateOptions options{.loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>(
                                    nn::SoftmaxCrossEntropyLoss::Options{.sums_steps = true}),
                                .metric = [] { return std::make_unique<metric::Perplexity>(); },
                                .batch_size = 4};
  const double once = Evaluate(net, *text, {cpu(0)}, options).score;
  EXPECT_NEAR(Evaluate(net, *text, {cpu(0), cpu(0)}, options).score, once, 1e-4 * once);
}

TEST_F(EvaluateTest, TheMeanOfNothingIsNoNumber) {
  EXPECT_TRUE(std::isnan(Evaluate(net_, RandomPoints(0, 1), Cpus(2)).score));
}

}  // namespace
}  // namespace sluice::testing
