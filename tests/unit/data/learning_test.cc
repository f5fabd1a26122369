// What the synthetic sets are hard for: trained networks, not the sets' own arithmetic, say so.
#include <gtest/gtest.h>

#include "sluice/fit.h"
#include "sluice/models.h"
#include "sluice/synthetic.h"

namespace sluice {
namespace {

double TestAccuracy(nn::Sequential& net, std::shared_ptr<const Dataset> train,
                    std::shared_ptr<const Dataset> test, const OptimizerConfig& optimizer,
                    int64_t num_epochs) {
  const std::vector<Context> contexts = {cpu(0)};
  net.CollectParams().Initialize(contexts, nullptr, 1);
  FitOptions options;
  options.contexts = contexts;
  options.num_epochs = num_epochs;
  options.disp_batches = 0;
  return Fit(net, std::move(train), std::move(test), optimizer, KVStore::Create("local"), options).test_score;
}

TEST(SyntheticPicturesLearning, ALinearModelStaysFarBelowAConvolution) {
  const auto train = SyntheticPictures(Subset::kTrain, 0, 3000);
  const auto test = SyntheticPictures(Subset::kTest, 0, 1000);
  const OptimizerConfig adam{.kind = OptimizerKind::kAdam, .learning_rate = 0.002};
  nn::Sequential linear;
  linear.Add("flatten", nn::Flatten()).Add("fc", nn::Dense(10));
  EXPECT_LT(TestAccuracy(linear, train, test, adam, 5), 0.15);
  nn::Sequential lenet = nn::GluonLenet();
  EXPECT_GT(TestAccuracy(lenet, train, test, adam, 12), 0.30);
}

// How often each word is there.
class BagOfWords final : public Dataset {
 public:
  explicit BagOfWords(std::shared_ptr<const Dataset> texts) : texts_(std::move(texts)) {}
  int64_t size() const override { return texts_->size(); }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return texts_->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    std::vector<float> words(static_cast<size_t>(kSyntheticTextLength));
    const int32_t label = texts_->Get(index, words);
    std::fill(sample.begin(), sample.end(), 0.0f);
    for (const float word : words) {
      if (word != kPaddingToken) ++sample[static_cast<size_t>(word)];
    }
    return label;
  }

 private:
  const std::shared_ptr<const Dataset> texts_;
  const Shape shape_{kSyntheticVocabulary};
};

TEST(SyntheticTextLearning, WordsAreNothingAloneAndAllTogether) {
  const auto train = std::make_shared<BagOfWords>(SyntheticText(Subset::kTrain, 0, 8000));
  const auto test = std::make_shared<BagOfWords>(SyntheticText(Subset::kTest, 0, 1000));
  nn::Sequential linear;
  linear.Add("fc", nn::Dense(4));
  EXPECT_LT(TestAccuracy(linear, train, test, {.learning_rate = 0.05, .momentum = 0.9}, 4), 0.50);
  // The first layer's columns are the words' embeddings.
  nn::Sequential embedding;
  embedding.Add("embedding", nn::Dense(64)).Add("relu", nn::Activation::Relu()).Add("fc", nn::Dense(4));
  EXPECT_GT(TestAccuracy(embedding, train, test, {.learning_rate = 0.1, .momentum = 0.9}, 12), 0.90);
}

}  // namespace
}  // namespace sluice
