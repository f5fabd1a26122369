// Which gradients a Trainer steps: frozen, stale, added up and shared ones.
#include <gmock/gmock.h>

#include "sluice/nn.h"
#include "sluice/trainer.h"
#include "unit/expect_error.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrainerGradients, AFrozenParameterIsLeftAlone) {
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("frozen", {7}, {cpu(0)}, {.grad_req = autograd::GradReq::kNull}));
  parameters.Add(MakeParameter("w", {7}, {cpu(0)}));
  Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("device"));
  BackwardWith(*parameters.at(1), {{2}});
  trainer.Step(1);
  EXPECT_THAT(parameters.at(0)->data(cpu(0)).ToVector(), ElementsAre(7));
  EXPECT_THAT(parameters.at(1)->data(cpu(0)).ToVector(), ElementsAre(5));
}

TEST(TrainerGradients, AGradientOfSomeContextsOnlyIsStale) {
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("w", {1}, Cpus(3)));
  Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"));
  BackwardWith(*parameters.at(0), {{1}, {1}});
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer.Step(1); }),
              HasSubstr("parameter w has a stale gradient"));
  trainer.Step(1, /*ignore_stale=*/true);
  EXPECT_THAT(parameters.at(0)->data(cpu(0)).ToVector(), ElementsAre(1));
}

TEST(TrainerGradients, IgnoringStaleOnesStepsTheOthers) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    for (const char* name : {"a", "b"}) parameters.Add(MakeParameter(name, {1}, Cpus(2)));
    Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"), {update_on_kvstore});
    BackwardWith(parameters["b"], {{1}, {2}});
    trainer.Step(1, /*ignore_stale=*/true);
    EXPECT_THAT(parameters["a"].data(cpu(1)).ToVector(), ElementsAre(1));
    EXPECT_THAT(parameters["b"].data(cpu(1)).ToVector(), ElementsAre(-2));
  }
}

// What was pushed before a call of the step threw is not pushed again.
TEST(TrainerGradients, AStepThatEndsHalfwayLeavesStaleWhatItHasPushed) {
  nn::ParameterDict parameters;
  for (const char* name : {"a", "b"}) parameters.Add(MakeParameter(name, {5}, Cpus(1)));
  const std::shared_ptr<KVStore> store = StoreOf("local");
  Trainer trainer(parameters, {.learning_rate = 1}, store);
  store->SetUpdater([](const Key& key, const NDArray& gradient, NDArray& weight) {
    if (key == Key("b")) throw Error(ErrorCode::kUnavailable, "b has no updater");
    weight = weight - gradient;
  });
  for (const char* name : {"a", "b"}) BackwardWith(parameters[name], {{1}});
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { trainer.Step(1); }), HasSubstr("b has no updater"));
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer.Step(1); }),
              HasSubstr("parameter a has a stale gradient"));
}

// Frozen weights and statistics: equal everywhere at the start, and no business of the store afterwards.
TEST(TrainerGradients, WhatHasNoGradientIsBroughtToAllOnceAndNeverStepped) {
  nn::ParameterDict parameters;
  const auto frozen = MakeParameter("frozen", {1, 2}, Cpus(2), {.grad_req = autograd::GradReq::kNull});
  const auto weight = MakeParameter("w", {1}, Cpus(2));
  frozen->data(cpu(1)).Fill(7);
  parameters.Add(frozen);
  parameters.Add(weight);
  Trainer trainer(parameters, {.learning_rate = 1, .wd = 0.5}, StoreOf("device"));
  EXPECT_THAT(frozen->data(cpu(1)).ToVector(), ElementsAre(1, 2));
  frozen->data(cpu(1)).Fill(5);  // as a forward of BatchNorm does
  BackwardWith(*weight, {{1}, {2}});
  trainer.Step(1);
  EXPECT_THAT(frozen->data(cpu(0)).ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(frozen->data(cpu(1)).ToVector(), ElementsAre(5, 5));
  EXPECT_THAT(weight->data(cpu(1)).ToVector(), ElementsAre(1 - (3 + 0.5)));
}

// Gradients of several backward passes, one step.
TEST(TrainerGradients, GradientsThatAddUpAreSteppedOnce) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    const auto weight = MakeParameter("w", {0}, Cpus(2), {.grad_req = autograd::GradReq::kAdd});
    parameters.Add(weight);
    Trainer trainer(parameters, {.learning_rate = 0.5}, StoreOf("local"), {update_on_kvstore});
    double expected = 0;
    for (const float size : {1.0f, 2.0f}) {
      parameters.ZeroGrad();
      BackwardWith(*weight, {{size}, {2 * size}});
      BackwardWith(*weight, {{3 * size}, {4 * size}});
      trainer.Step(5);
      expected -= 0.5 * 10 * size / 5;
      EXPECT_THAT(weight->data(cpu(1)).ToVector(), ElementsAre(static_cast<float>(expected)));
    }
  }
}

// What is pushed while backward runs must be complete.
TEST(TrainerGradients, GradientsThatAddUpArePushedByTheStepAlone) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    const auto weight = MakeParameter("w", {0}, Cpus(2), {.grad_req = autograd::GradReq::kAdd});
    parameters.Add(weight);
    Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"), {update_on_kvstore});
    trainer.PushDuringBackward(1);
    BackwardWith(*weight, {{1}, {2}});
    BackwardWith(*weight, {{30}, {40}});
    trainer.Step(1);
    EXPECT_THAT(weight->data(cpu(0)).ToVector(), ElementsAre(-73));
  }
}

TEST(TrainerGradients, WhatIsFrozenOnTheWayIsLeftAloneUntilItThaws) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    for (const char* name : {"a", "b"}) parameters.Add(MakeParameter(name, {0}, Cpus(2)));
    nn::Parameter &a = parameters["a"], &b = parameters["b"];
    Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("device"), {update_on_kvstore});
    const auto step = [&](bool with_a) {
      trainer.PushDuringBackward(1);
      if (with_a) BackwardWith(a, {{1}, {2}});
      BackwardWith(b, {{10}, {20}});
      trainer.Step(1);
    };
    step(true);
    a.SetGradReq(autograd::GradReq::kNull);
    step(false);
    step(false);
    EXPECT_THAT(a.data(cpu(1)).ToVector(), ElementsAre(-3));
    a.SetGradReq(autograd::GradReq::kWrite);
    step(true);
    EXPECT_THAT(a.data(cpu(1)).ToVector(), ElementsAre(-6));
    EXPECT_THAT(b.data(cpu(1)).ToVector(), ElementsAre(-120));
    a.SetGradReq(autograd::GradReq::kNull);  // the Trainer ends with it frozen
  }
}

TEST(TrainerGradients, WhatWasFrozenAtFirstIsTrainedOnceItThaws) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    parameters.Add(MakeParameter("a", {0}, {cpu(0)}, {.grad_req = autograd::GradReq::kNull}));
    parameters.Add(MakeParameter("b", {0}, {cpu(0)}));
    parameters["a"].set_lr_mult(0.5);
    Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"), {update_on_kvstore});
    BackwardWith(parameters["b"], {{1}});
    trainer.Step(1);
    parameters["a"].SetGradReq(autograd::GradReq::kWrite);
    BackwardWith(parameters["b"], {{1}});
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer.Step(1); }),
                HasSubstr("parameter a has a stale gradient"));
    BackwardWith(parameters["a"], {{4}});
    trainer.Step(1);
    EXPECT_THAT(parameters["a"].data(cpu(0)).ToVector(), ElementsAre(-2));
    EXPECT_THAT(parameters["b"].data(cpu(0)).ToVector(), ElementsAre(-2));
  }
}

// Another variable counts its gradients anew.
TEST(TrainerGradients, AChangeOfHowGradientsAreKeptMakesNoneStale) {
  nn::ParameterDict parameters;
  const auto weight = MakeParameter("w", {0}, {cpu(0)});
  parameters.Add(weight);
  Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"));
  for (const autograd::GradReq req : {autograd::GradReq::kAdd, autograd::GradReq::kWrite}) {
    BackwardWith(*weight, {{1}});
    trainer.Step(1);
    weight->SetGradReq(req);
  }
  BackwardWith(*weight, {{1}});
  trainer.Step(1);
  EXPECT_THAT(weight->data(cpu(0)).ToVector(), ElementsAre(-3));
}

// Two layers, one weight: it is stepped once, by the sum.
TEST(TrainerGradients, ASharedParameterIsSteppedOnce) {
  nn::Dense first(1, {.use_bias = false, .in_units = 1}), second(1, {.use_bias = false, .in_units = 1});
  second.ShareParameters(first);
  nn::Sequential net;
  net.Add("first", std::move(first)).Add("second", std::move(second));
  const nn::ParameterDict parameters = net.CollectParams();
  parameters.Initialize({cpu(0)}, std::make_shared<nn::Constant>(3));
  Trainer trainer(parameters, {.learning_rate = 0.5}, StoreOf("local"));
  trainer.PushDuringBackward(1);
  NDArray y;
  {
    const autograd::RecordScope record;
    y = net(NDArray::From({2}, {1, 1}));  // w w x
  }
  autograd::Backward({y});
  trainer.Step(1);
  EXPECT_THAT(parameters.at(0)->data(cpu(0)).ToVector(), ElementsAre(3 - 0.5f * 2 * 3 * 2));
}

}  // namespace
}  // namespace sluice::testing
