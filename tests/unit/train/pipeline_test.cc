// Tests sluice/pipeline.h: its schedule, and that a pipelined step is the step of the whole network.
#include "sluice/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "sluice/models.h"
#include "sluice/nn.h"
#include "sluice/trainer.h"
#include "train/pipeline/schedule.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Ne;
using train::OneForwardOneBackward;
using train::PipelineStep;
using Direction = PipelineStep::Direction;

TEST(OneForwardOneBackwardTest, EveryStepComesOnceAndAfterThoseItNeeds) {
  for (const auto& [stages, parts] : {std::pair(1, 1), {1, 5}, {2, 1}, {2, 8}, {4, 2}, {4, 9}, {7, 7}}) {
    const auto steps = OneForwardOneBackward(static_cast<size_t>(stages), static_cast<size_t>(parts));
    ASSERT_EQ(steps.size(), static_cast<size_t>(2 * stages * parts));
    const auto place = [&](size_t stage, size_t part, Direction direction) {
      return std::ranges::find(steps, PipelineStep{stage, part, direction}) - steps.begin();
    };
    for (size_t stage = 0; stage < static_cast<size_t>(stages); ++stage) {
      for (size_t part = 0; part < static_cast<size_t>(parts); ++part) {
        const auto forward = place(stage, part, Direction::kForward);
        const auto backward = place(stage, part, Direction::kBackward);
        ASSERT_LT(backward, static_cast<std::ptrdiff_t>(steps.size()));
        EXPECT_LT(forward, backward);
        if (stage == 0) continue;
        EXPECT_LT(place(stage - 1, part, Direction::kForward), forward);
        EXPECT_LT(backward, place(stage - 1, part, Direction::kBackward));
      }
    }
  }
}

TEST(OneForwardOneBackwardTest, StageSOfNKeepsAtMostNMinusSMicroBatches) {
  constexpr size_t kStages = 4;
  std::vector<size_t> kept(kStages), most(kStages);
  for (const PipelineStep& step : OneForwardOneBackward(kStages, 10)) {
    step.direction == Direction::kForward ? ++kept[step.stage] : --kept[step.stage];
    most[step.stage] = std::max(most[step.stage], kept[step.stage]);
  }
  EXPECT_THAT(most, ElementsAre(4, 3, 2, 1));
}

constexpr int64_t kBatch = 10, kSentence = 3, kWords = 20, kClasses = 5;

nn::Sequential Layers() {
  nn::Sequential layers;
  layers.Add("embed", nn::Embedding(kWords, 6))
      .Add("lstm0", nn::Lstm(8))
      .Add("drop", nn::Dropout(0.5))
      .Add("lstm1", nn::Lstm(7))
      .Add("last", nn::SequenceLast())
      .Add("decode", nn::Dense(kClasses));
  for (const size_t i : {1, 2}) layers[i].SetGroup("first");
  for (const size_t i : {3, 4}) layers[i].SetGroup("second");
  return layers;
}

NDArray WholeNumbers(const Shape& shape, int64_t below, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& value : values) value = static_cast<float>(rng.Below(static_cast<uint64_t>(below)));
  return NDArray::From(values, shape);
}

const NDArray& X() {
  static const NDArray x = WholeNumbers({kBatch, kSentence}, kWords, 1);
  return x;
}
const NDArray& Labels() {
  static const NDArray labels = WholeNumbers({kBatch}, kClasses, 2);
  return labels;
}

std::map<std::string, std::vector<float>> Gradients(const nn::ParameterDict& parameters) {
  std::map<std::string, std::vector<float>> gradients;
  for (const auto& parameter : parameters)
    gradients[parameter->name()] = parameter->list_grad()[0].ToVector();
  return gradients;
}

void ExpectNear(const std::vector<float>& some, const std::vector<float>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (size_t i = 0; i < some.size(); ++i) ASSERT_NEAR(some[i], others[i], 1e-6) << i;
}

class PipelineOf : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(
    Stages, PipelineOf,
    ::testing::Values(std::pair("embed=cpu(0),first=cpu(0),second=cpu(0),decode=cpu(0)", 3),
                      std::pair("embed=cpu(0),first=cpu(0),second=cpu(1),decode=cpu(1)", 1),
                      std::pair("embed=cpu(0),first=cpu(0),second=cpu(1),decode=cpu(1)", 4),
                      std::pair("embed=cpu(0),first=cpu(1),second=cpu(2),decode=cpu(3)", 3),
                      std::pair("embed=cpu(1),first=cpu(0),second=cpu(1),decode=cpu(0)", 16)));

TEST_P(PipelineOf, HasTheGradientsOfTheWholeNetwork) {
  nn::Sequential whole = Layers();
  whole.CollectParams().Initialize({cpu(0)}, nullptr, 3);
  const auto loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>();
  const autograd::RecordOptions step{.seed = 9, .step = 4};
  std::vector<float> losses;
  {
    NDArray of_samples;
    {
      const autograd::RecordScope record(step);
      of_samples = (*loss)(whole(X()), Labels());
    }
    autograd::Backward(of_samples);
    losses = of_samples.ToVector();
  }
  nn::PlacedSequential net(Layers(), nn::Placement::Parse(GetParam().first));
  net.Initialize(nullptr, 3);
  Pipeline pipeline(net, loss, {.micro_batches = GetParam().second});
  for (int again = 0; again < 2; ++again) {
    std::vector<float> found;
    for (const NDArray& part : pipeline.Run(X(), Labels(), step).losses)
      for (const float value : part.ToVector()) found.push_back(value);
    ExpectNear(found, losses);
    const auto wanted = Gradients(whole.CollectParams());
    for (const auto& [name, gradient] : Gradients(net.CollectParams())) {
      SCOPED_TRACE(name);
      ExpectNear(gradient, wanted.at(name));
    }
  }
}

// Several steps with a Trainer, which sums, pushes and updates parameters on two contexts.
TEST_P(PipelineOf, TrainsAsTheWholeNetworkDoes) {
  const auto loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>();
  const OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .learning_rate = 0.5, .momentum = 0.9};
  nn::Sequential whole = Layers();
  whole.CollectParams().Initialize({cpu(0)}, nullptr, 3);
  Trainer trainer(whole.CollectParams(), sgd);
  nn::PlacedSequential net(Layers(), nn::Placement::Parse(GetParam().first));
  net.Initialize(nullptr, 3);
  Trainer placed_trainer(net.CollectParams(), sgd);
  Pipeline pipeline(net, loss, {.micro_batches = GetParam().second});
  for (uint64_t i = 0; i < 5; ++i) {
    const autograd::RecordOptions step{.seed = 9, .step = i};
    NDArray of_samples;
    {
      const autograd::RecordScope record(step);
      of_samples = (*loss)(whole(X()), Labels());
    }
    autograd::Backward(of_samples);
    trainer.Step(kBatch);
    pipeline.Run(X(), Labels(), step);
    placed_trainer.Step(kBatch);
  }
  for (const auto& parameter : whole.CollectParams()) {
    SCOPED_TRACE(parameter->name());
    ExpectNear(net.CollectParams()[parameter->name()].list_data()[0].ToVector(),
               parameter->list_data()[0].ToVector());
  }
}

std::shared_ptr<const nn::Loss> NewLoss() {
  return std::make_shared<nn::SoftmaxCrossEntropyLoss>();
}

// What is thawed between two steps has the gradient of the whole batch.
TEST(PipelineTest, AParameterThatIsNoLongerFrozenHasAllOfItsGradient) {
  const char* placement = "embed=cpu(0),first=cpu(0),second=cpu(1),decode=cpu(1)";
  nn::PlacedSequential net(Layers(), nn::Placement::Parse(placement));
  net.Initialize(nullptr, 3);
  nn::Parameter& weight = net.CollectParams()["embed.weight"];
  weight.SetGradReq(autograd::GradReq::kNull);
  Pipeline pipeline(net, NewLoss(), {.micro_batches = 5});
  const autograd::RecordOptions step{.seed = 9, .step = 4};
  pipeline.Run(X(), Labels(), step);
  weight.SetGradReq(autograd::GradReq::kWrite);
  pipeline.Run(X(), Labels(), step);
  Pipeline whole(net, NewLoss(), {.micro_batches = 1});
  const std::vector<float> found = weight.list_grad()[0].ToVector();
  whole.Run(X(), Labels(), step);
  ExpectNear(found, weight.list_grad()[0].ToVector());
  EXPECT_TRUE(std::ranges::any_of(found, [](float value) { return value != 0; }));
}

// A stage through which no gradient goes back ends it for those before.
TEST(PipelineTest, WhatIsDetachedHasNoGradient) {
  nn::Sequential layers;
  layers.Add("a", nn::Dense(4))
      .Add("b", nn::Lambda([](const NDArray& x) { return x.Detach(); }))
      .Add("c", nn::Dense(4));
  layers[1].SetGroup("b");
  nn::PlacedSequential net(std::move(layers), nn::Placement::Parse("a=cpu(0),b=cpu(1),c=cpu(0)"));
  net.Initialize();
  NDArray x({6, 3});
  x.Fill(1);
  NDArray labels({6});
  Pipeline pipeline(net, NewLoss(), {.micro_batches = 3});
  pipeline.Run(x, labels);
  EXPECT_THAT(net.CollectParams()["a.weight"].list_grad()[0].ToVector(), Each(0));
  EXPECT_THAT(net.CollectParams()["c.weight"].list_grad()[0].ToVector(), Contains(Ne(0)));
}

// Fine-tuning: the layers before are as they were, and nothing is kept of them.
TEST(PipelineTest, FrozenStagesAreNotGoneBackThrough) {
  const char* placement = "embed=cpu(0),first=cpu(1),second=cpu(2),decode=cpu(3)";
  nn::PlacedSequential net(Layers(), nn::Placement::Parse(placement));
  net.Initialize(nullptr, 3);
  for (const auto& parameter : net.CollectParams())
    if (!parameter->name().starts_with("decode")) parameter->SetGradReq(autograd::GradReq::kNull);
  Pipeline pipeline(net, NewLoss(), {.micro_batches = 5});
  pipeline.Run(X(), Labels(), {.seed = 9, .step = 4});
  EXPECT_THAT(net.CollectParams()["decode.weight"].list_grad()[0].ToVector(), Contains(Ne(0)));
}

TEST(PipelineTest, TheInputGetsNoGradient) {
  nn::PlacedSequential net(nn::Mlp(), nn::Placement::Parse("fc1=cpu(0),fc2=cpu(1),fc3=cpu(1)"));
  net.Initialize();
  NDArray x({4, 1, 28, 28});
  x.Fill(0.5);
  autograd::AttachGrad(x);
  Pipeline(net, NewLoss(), {.micro_batches = 2}).Run(x, NDArray({4}));
  EXPECT_EQ(autograd::GradVersion(x), 0u);
}

TEST(PipelineTest, WrongArgumentsAreRefused) {
  nn::PlacedSequential net(Layers(),
                           nn::Placement::Parse("embed=cpu(0),first=cpu(0),second=cpu(1),decode=cpu(1)"));
  net.Initialize();
  const auto mean = std::make_shared<nn::SoftmaxCrossEntropyLoss>(nn::Reduction::kMean);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Pipeline(net, nullptr); }),
              HasSubstr("the loss is a null pointer"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Pipeline(net, mean); }),
              HasSubstr("the loss is a mean over samples"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Pipeline(net, NewLoss(), {.micro_batches = 0}); }),
              HasSubstr("micro_batches is 0; it must be at least 1"));
  Pipeline pipeline(net, NewLoss());
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { pipeline.Run(NDArray(), Labels()); }),
              HasSubstr("the input"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { pipeline.Run(X(), NDArray({kBatch - 1})); }),
              HasSubstr("must have the same number of samples"));
  const nn::PlacedSequential other = std::move(net);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { pipeline.Run(X(), Labels()); }),
              HasSubstr("has been moved from"));
}

}  // namespace
}  // namespace sluice
