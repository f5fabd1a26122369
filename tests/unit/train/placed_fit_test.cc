// Fit and Evaluate on a PlacedSequential: what they refuse, and where their arrays lie. That it trains as on
// one device is tests/contract/placed_layers_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/fit.h"
#include "sluice/pipeline.h"
#include "unit/expect_error.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

nn::Sequential PlacedLayers() {
  nn::Sequential layers;
  layers.Add("hidden", nn::Dense(8))
      .Add("tanh", nn::Activation::Tanh())
      .Add("out", nn::Dense(int64_t{kClasses}));
  return layers;
}

class PlacedFitTest : public ::testing::Test {
 protected:
  PlacedFitTest() { net_.Initialize(nullptr, 4); }
  FitReport Run(const FitOptions& options) {
    return Fit(net_, data_, data_, {.learning_rate = 0.5}, StoreOf("local"), options);
  }
  std::string ErrorOfRun(const FitOptions& options) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { Run(options); });
  }
  nn::PlacedSequential net_{PlacedLayers(), nn::Placement::Parse("hidden=cpu(2),out=cpu(1)")};
  const std::shared_ptr<const Dataset> data_ = std::make_shared<RandomPoints>(300, 2);
};

TEST_F(PlacedFitTest, EvaluatesAsOnOneContext) {
  nn::Sequential whole = PlacedLayers();
  whole.CollectParams().Initialize({cpu(0)}, nullptr, 4);
  const EvalReport one = Evaluate(whole, *data_, {cpu(0)}, {.top_k = 2});
  const EvalReport placed = Evaluate(net_, *data_, {cpu(0)}, {.top_k = 2});
  EXPECT_EQ(placed.score, one.score);
  EXPECT_EQ(placed.top_k, one.top_k);
  EXPECT_NEAR(placed.loss, one.loss, 1e-6);
}

TEST_F(PlacedFitTest, TheLastBatchMayHaveFewerSamplesThanMicroBatches) {
  const FitReport report =
      Run({.micro_batches = 8, .batch_size = 149, .num_epochs = 2, .quiet = true});  // 149, 149 and 2 samples
  EXPECT_EQ(report.steps, 6);
  EXPECT_LT(report.train_loss[1], report.train_loss[0]);
}

TEST_F(PlacedFitTest, WrongOptionsAreRefused) {
  EXPECT_THAT(ErrorOfRun({.contexts = Cpus(2)}), HasSubstr("lies on the contexts of its placement"));
  EXPECT_THAT(ErrorOfRun({.contexts = {}}), HasSubstr("there are no contexts"));
  EXPECT_THAT(ErrorOfRun({.micro_batches = -1}), HasSubstr("micro_batches is -1"));
  nn::Sequential whole = PlacedLayers();
  whole.CollectParams().Initialize();
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidArgument,
              [&] { Fit(whole, data_, data_, {.learning_rate = 0.5}, nullptr, {.micro_batches = 2}); }),
      HasSubstr("the network is a Sequential: only a PlacedSequential is run as a pipeline"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Evaluate(net_, *data_, Cpus(2)); }),
              HasSubstr("Evaluate: there are 2 contexts"));
}

// The gradients of the last stages are pushed while the first ones still go back.
TEST_F(PlacedFitTest, GradientsArePushedDuringTheLastBackward) {
  const auto store = StoreOf("local");
  Pipeline pipeline(net_, std::make_shared<nn::SoftmaxCrossEntropyLoss>(), {.micro_batches = 3});
  NDArray x({6, int64_t{kFeatures}});
  x.Fill(1);
  const NDArray labels({6});
  pipeline.Run(x, labels);  // fills in the shapes and lets gradients accumulate
  Trainer trainer(net_.CollectParams(), {.learning_rate = 0.5, .normalize_by_samples = true}, store);
  trainer.PushSamplesDuringBackward(6);
  pipeline.Run(x, labels);
  nn::Parameter& last = net_.CollectParams()["out.bias"];
  const std::vector<float> before = last.list_data()[0].ToVector();
  trainer.StepSamples(6);
  EXPECT_NE(before, std::vector<float>(kClasses, 0));  // updated already when StepSamples is called
}

}  // namespace
}  // namespace sluice::testing
