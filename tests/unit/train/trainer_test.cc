// Steps in closed form: gradients are named, the formula runs beside in float64.
#include "sluice/trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr size_t kElements = 5;

OptimizerConfig Momentum() {
  OptimizerConfig config;
  config.learning_rate = 0.5;
  config.momentum = 0.9;
  config.wd = 0.01;
  return config;
}

struct Setup {
  std::string store;
  int contexts;
  bool update_on_kvstore;
};
std::ostream& operator<<(std::ostream& out, const Setup& setup) {
  return out << setup.store << '_' << setup.contexts << (setup.update_on_kvstore ? "_store" : "_own");
}

// One parameter, its Trainer, and SGD with momentum in float64.
class TrainerOn : public ::testing::TestWithParam<Setup> {
 protected:
  static constexpr int64_t kBatch = 4;

  TrainerOn() : contexts_(Cpus(GetParam().contexts)) {
    for (size_t i = 0; i < kElements; ++i) expected_.push_back(static_cast<float>(rng_.Normal()));
    velocity_.resize(kElements);
    parameter_ =
        MakeParameter("w", {expected_.begin(), expected_.end()}, contexts_, {.lr_mult = 0.5, .wd_mult = 3});
    Renew();
  }
  // A Trainer with no past on a store with none.
  void Renew() {
    nn::ParameterDict parameters;
    parameters.Add(parameter_);
    trainer_.reset();
    trainer_ = std::make_unique<Trainer>(parameters, Momentum(), StoreOf(GetParam().store),
                                         TrainerOptions{GetParam().update_on_kvstore});
  }
  std::vector<std::vector<float>> RandomGradients() {
    std::vector<std::vector<float>> gradients(contexts_.size(), std::vector<float>(kElements));
    for (auto& of_context : gradients)
      for (float& g : of_context) g = static_cast<float>(rng_.Normal());
    return gradients;
  }
  void Expect(const std::vector<std::vector<float>>& gradients, double learning_rate = 0.5) {
    for (size_t i = 0; i < kElements; ++i) {
      double g = 0;
      for (const auto& of_context : gradients) g += of_context[i];
      velocity_[i] = 0.9 * velocity_[i] - learning_rate * 0.5 * (g / kBatch + 0.01 * 3 * expected_[i]);
      expected_[i] += velocity_[i];
    }
  }
  void Step(double learning_rate = 0.5) {
    const auto gradients = RandomGradients();
    BackwardWith(*parameter_, gradients);
    trainer_->Step(kBatch);
    Expect(gradients, learning_rate);
  }
  void Check() {
    for (const NDArray& weight : parameter_->list_data())
      EXPECT_THAT(weight.ToVector(), Pointwise(FloatNear(2e-6f), expected_)) << weight.context();
  }

  Rng rng_{3};
  const std::vector<Context> contexts_;
  std::vector<double> expected_, velocity_;
  std::shared_ptr<nn::Parameter> parameter_;
  std::unique_ptr<Trainer> trainer_;
};

INSTANTIATE_TEST_SUITE_P(All, TrainerOn,
                         ::testing::Values(Setup{"local", 1, true}, Setup{"local", 1, false},
                                           Setup{"local", 3, true}, Setup{"local", 3, false},
                                           Setup{"device", 1, true}, Setup{"device", 1, false},
                                           Setup{"device", 3, true}, Setup{"device", 3, false}),
                         ::testing::PrintToStringParamName());

TEST_P(TrainerOn, StepsFollowTheFormulaOnEveryContext) {
  for (int step = 0; step < 10; ++step) {
    Step();
    Check();
  }
}

TEST_P(TrainerOn, PushingDuringBackwardChangesNoValue) {
  for (int step = 0; step < 3; ++step) {
    const auto gradients = RandomGradients();
    trainer_->PushDuringBackward(kBatch);
    BackwardWith(*parameter_, gradients);
    trainer_->Step(kBatch);
    Expect(gradients);
    Check();
  }
}

TEST_P(TrainerOn, ANewLearningRateHoldsFromTheNextStep) {
  Step();
  trainer_->SetLearningRate(0.125);
  EXPECT_EQ(trainer_->learning_rate(), 0.125);
  Step(0.125);
  Step(0.125);
  Check();
}

// The next step goes on from them, with the momentum as it is.
TEST_P(TrainerOn, WeightsThatAreWrittenBetweenStepsCount) {
  const auto follow = [&](double by) {
    for (double& weight : expected_) weight = static_cast<float>(weight) * by;
  };
  for (NDArray& weight : parameter_->list_data()) weight *= 2;  // before the first step
  follow(2);
  Step();
  std::vector<float> values(kElements, 3);
  parameter_->SetData(NDArray::From(std::span(std::as_const(values)), {kElements}));
  expected_.assign(kElements, 3);
  Step();
  Check();
  const auto gradients = RandomGradients();
  trainer_->PushDuringBackward(kBatch);
  for (NDArray& weight : parameter_->list_data()) weight *= 0.5f;
  follow(0.5);
  BackwardWith(*parameter_, gradients);
  trainer_->Step(kBatch);
  Expect(gradients);
  Check();
}

// Behind the push of its gradient, which has updated the store's weight already.
TEST_P(TrainerOn, AWeightThatIsWrittenDuringAStepLosesNoGradientInSilence) {
  const auto gradients = RandomGradients();
  trainer_->PushDuringBackward(kBatch);
  BackwardWith(*parameter_, gradients);
  const std::vector<float> values(kElements, 3);
  parameter_->SetData(NDArray::From(std::span(values), {kElements}));
  if (GetParam().update_on_kvstore) {
    const std::string why = ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer_->Step(kBatch); });
    EXPECT_NE(why.find("parameter w was written"), std::string::npos) << why;
    Expect(gradients);  // the store has them, and its momentum
    expected_.assign(kElements, 3);
    Step();
    Check();
    return;
  }
  expected_.assign(kElements, 3);
  trainer_->Step(kBatch);
  Expect(gradients);
  Check();
}

TEST_P(TrainerOn, TheLearningRateIsThatOfTheNextStep) {
  OptimizerConfig config{.learning_rate = 4};
  config.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 1, .warmup_steps = 2};
  const auto parameter = MakeParameter("v", {0}, contexts_);
  nn::ParameterDict parameters;
  parameters.Add(parameter);
  Trainer trainer(parameters, config, StoreOf(GetParam().store), {GetParam().update_on_kvstore});
  float weight = 0;
  for (const double rate : {2.0, 2.0, 1.0, 0.5}) {  // half of the base rate, then 4 halved after 1, 2 and 3
    EXPECT_EQ(trainer.learning_rate(), rate);
    EXPECT_EQ(trainer.base_learning_rate(), 4);
    BackwardWith(*parameter, std::vector<std::vector<float>>(contexts_.size(), {1}));
    trainer.Step(static_cast<int64_t>(contexts_.size()));
    weight -= static_cast<float>(rate);
    EXPECT_EQ(parameter->list_data().back().ToScalar(), weight);
  }
}

TEST_P(TrainerOn, ABadLearningRateIsRefusedEveryTimeAndTheOldOneStays) {
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { trainer_->SetLearningRate(-1); }),
                HasSubstr("learning_rate is -1"));
  }
  EXPECT_EQ(trainer_->learning_rate(), 0.5);
  Step();
  Check();
}

TEST_P(TrainerOn, AStaleGradientIsRefusedAndNothingHappens) {
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer_->Step(kBatch); }),
              HasSubstr("parameter w has a stale gradient"));
  Step();
  const auto before = parameter_->list_grad().front().ToVector();
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer_->Step(kBatch); }),
              HasSubstr("parameter w has a stale gradient"));
  EXPECT_EQ(parameter_->list_grad().front().ToVector(), before);
  Check();
  trainer_->Step(kBatch, /*ignore_stale=*/true);
  Check();
  Step();
  Check();
}

TEST_P(TrainerOn, StatesGoOnInANewTrainer) {
  std::string folder = std::filesystem::temp_directory_path() / "sluice-trainer-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/states";
  for (int step = 0; step < 3; ++step) Step();
  trainer_->SaveStates(path);
  Renew();
  trainer_->LoadStates(path);
  std::filesystem::remove_all(folder);
  for (int step = 0; step < 3; ++step) Step();
  Check();
}

// One file, whoever updates; and plain SGD has a place in its schedule to go on from.
TEST(TrainerStates, AreReadByAStoreAndByATrainerThatUpdatesItself) {
  std::string folder = std::filesystem::temp_directory_path() / "sluice-trainer-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/states";
  OptimizerConfig config{.learning_rate = 1};
  config.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 2};
  for (const bool writer : {false, true}) {
    for (const bool reader : {false, true}) {
      const auto parameter = MakeParameter("w", {0}, Cpus(2));
      nn::ParameterDict parameters;
      parameters.Add(parameter);
      const auto step = [&](Trainer& trainer) {
        BackwardWith(*parameter, {{3}, {1}});
        trainer.Step(4);
      };
      {
        Trainer trainer(parameters, config, StoreOf("local"), {.update_on_kvstore = writer});
        for (int i = 0; i < 3; ++i) step(trainer);  // at rates 1, 1, 1/2
        trainer.SaveStates(path);
      }
      Trainer trainer(parameters, config, StoreOf("device"), {.update_on_kvstore = reader});
      trainer.LoadStates(path);
      for (int i = 0; i < 2; ++i) step(trainer);  // at 1/2 and 1/4
      for (const NDArray& data : parameter->list_data())
        EXPECT_EQ(data.ToScalar(), -3.25f) << writer << reader;
    }
  }
  std::filesystem::remove_all(folder);
}

// Masters where the Trainer updates, and where the store does; a weight that is set later counts.
TEST_P(TrainerOn, SixteenBitWeightsFollowTheirMasters) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const double step = dtype == DType::kFloat16 ? 0x1p-14 : 0x1p-11;
    const auto parameter = MakeParameter("w", {1, 1}, contexts_, {.dtype = dtype});
    nn::ParameterDict parameters;
    parameters.Add(parameter);
    Trainer trainer(parameters, {.learning_rate = 1, .multi_precision = true}, StoreOf(GetParam().store),
                    {GetParam().update_on_kvstore});
    const auto steps = [&](double weight) {
      for (int i = 0; i < 16; ++i) {
        std::vector<NDArray> gradients;
        for (const Context context : contexts_) {
          gradients.push_back(NDArray::Empty({2}, context, dtype));
          gradients.back().Fill(step);
        }
        autograd::Backward(parameter->list_data(), gradients);
        trainer.Step(static_cast<int64_t>(contexts_.size()));
      }
      const auto expected = static_cast<float>(weight - 16 * step);
      for (const NDArray& data : parameter->list_data())
        EXPECT_THAT(data.AsType(DType::kFloat32).ToVector(), ElementsAre(expected, expected));
    };
    steps(1);
    parameter->SetData(NDArray::From({2, 2}, {2}));
    steps(2);
  }
}

// Whole arrays, whoever updates: w = (3, 4), every direction (1, 1), so a step of lr * 5 / sqrt(2).
TEST_P(TrainerOn, LambScalesByNormsOfWholeArrays) {
  const auto parameter = MakeParameter("w", {3, 4}, contexts_);
  nn::ParameterDict parameters;
  parameters.Add(parameter);
  Trainer trainer(parameters, {.kind = OptimizerKind::kLamb, .learning_rate = 0.5}, StoreOf(GetParam().store),
                  {GetParam().update_on_kvstore});
  BackwardWith(*parameter, std::vector<std::vector<float>>(contexts_.size(), {2, 7}));
  trainer.Step(1);
  const auto by = static_cast<float>(0.5 * 5 / std::sqrt(2));
  for (const NDArray& data : parameter->list_data())
    EXPECT_THAT(data.ToVector(), Pointwise(FloatNear(2e-6f), {3 - by, 4 - by}));
}

TEST_P(TrainerOn, TheTwoHalvesOfAStepAreForOwnUpdates) {
  const auto gradients = RandomGradients();
  BackwardWith(*parameter_, gradients);
  if (GetParam().update_on_kvstore) {
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer_->AllreduceGrads(); }),
                HasSubstr("update_on_kvstore"));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer_->Update(kBatch); }),
                HasSubstr("update_on_kvstore"));
    return;
  }
  trainer_->AllreduceGrads();
  std::vector<double> sum(kElements);
  for (size_t i = 0; i < kElements; ++i)
    for (const auto& of_context : gradients) sum[i] += of_context[i];
  for (const NDArray& gradient : parameter_->list_grad())
    EXPECT_THAT(gradient.ToVector(), Pointwise(FloatNear(2e-6f), sum));
  Check();
  trainer_->Update(kBatch);
  Expect(gradients);
  Check();
}

TEST_P(TrainerOn, AStepHasTheBatchSizeOfItsPushesDuringBackward) {
  if (!GetParam().update_on_kvstore) return;  // Update divides whatever was pushed by its own batch size
  trainer_->PushDuringBackward(kBatch);
  BackwardWith(*parameter_, RandomGradients());
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { trainer_->Step(kBatch + 1); }),
              HasSubstr(StrCat("batch size ", kBatch + 1,
                               ", but gradients were pushed during backward with "
                               "batch size ",
                               kBatch)));
  trainer_->Step(kBatch);
}

TEST_P(TrainerOn, ABatchSizeIsPositive) {
  BackwardWith(*parameter_, RandomGradients());
  for (const int64_t size : {0, -3})
    for (const auto& call : {std::function<void()>([&] { trainer_->Step(size); }),
                             std::function<void()>([&] { trainer_->PushDuringBackward(size); })})
      EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, call), HasSubstr(StrCat("batch size is ", size)));
  Check();
}

// w = 0, lr 1: after a step the weight is minus the mean gradient over the samples.
TEST(Trainer, SamplesDivideAndAnIdleContextCountsNothing) {
  OptimizerConfig config;
  config.learning_rate = 1;
  config.normalize_by_samples = true;
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("w", {0, 0}, Cpus(3)));
  nn::Parameter& w = *parameters.at(0);
  Trainer trainer(parameters, config, StoreOf("local"));
  BackwardWith(w, {{1, 2}, {3, 4}, {5, 6}});
  trainer.StepSamples(6);
  EXPECT_THAT(w.data(cpu(2)).ToVector(), ElementsAre(-1.5f, -2));
  BackwardWith(w, {{10, 20}});
  trainer.StepSamples(5);
  EXPECT_THAT(w.data(cpu(2)).ToVector(), ElementsAre(-3.5f, -6));
  trainer.StepSamples(0);
  EXPECT_THAT(w.data(cpu(0)).ToVector(), ElementsAre(-3.5f, -6));
  BackwardWith(w, {{1, 0}, {0, 0}, {0, 0}});
  trainer.StepSamples(1);
  EXPECT_THAT(w.data(cpu(1)).ToVector(), ElementsAre(-4.5f, -6));
}

TEST(Trainer, SamplesNeedAnOptimizerThatDividesByThem) {
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("w", {0}, {cpu(0)}));
  Trainer trainer(parameters, {}, StoreOf("local"));
  BackwardWith(*parameters.at(0), {{1}});
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer.StepSamples(1); }),
              HasSubstr("normalize_by_samples"));
}

TEST(Trainer, AnAsyncStoreUpdatesItself) {
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [] { Trainer trainer({}, {}, StoreOf("dist_async"), {.update_on_kvstore = false}); }),
              HasSubstr("store type dist_async updates at every push"));
  const TrainerOptions clips{.update_on_kvstore = false, .clip_global_norm = 1};
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidArgument, [&] { Trainer trainer({}, {}, StoreOf("dist_async"), clips); }),
      HasSubstr("clip_global_norm needs steps that all workers share"));
}

// With the momentum that its copy on the first context has.
TEST(TrainerFollows, AParameterToMoreContextsAndBack) {
  for (const bool update_on_kvstore : {true, false}) {
    const auto parameter = MakeParameter("w", {0}, Cpus(1));
    nn::ParameterDict parameters;
    parameters.Add(parameter);
    Trainer trainer(parameters, {.learning_rate = 1, .momentum = 0.5}, StoreOf("local"), {update_on_kvstore});
    double weight = 0, velocity = 0;
    for (const int contexts : {1, 3, 2, 3}) {
      parameter->Reinitialize(Cpus(contexts));
      parameter->SetData(NDArray::From({static_cast<float>(weight)}, {1}));
      for (int step = 0; step < 2; ++step) {
        BackwardWith(*parameter, std::vector<std::vector<float>>(static_cast<size_t>(contexts), {1}));
        trainer.Step(contexts);
        velocity = 0.5 * velocity - 1;
        weight += velocity;
      }
      for (const NDArray& data : parameter->list_data())
        EXPECT_EQ(data.ToScalar(), weight)
            << data.context() << " of " << contexts << ", " << update_on_kvstore;
    }
  }
}

TEST(TrainerFollows, AStepThatIgnoresStaleGradientsLeavesThemAlone) {
  for (const bool update_on_kvstore : {true, false}) {
    nn::ParameterDict parameters;
    for (const char* name : {"a", "b"})
      parameters.Add(MakeParameter(name, {0}, Cpus(2), {.grad_req = autograd::GradReq::kAdd}));
    Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("local"), {update_on_kvstore});
    for (int step = 0; step < 2; ++step) {
      BackwardWith(parameters["a"], {{1}, {1}});
      autograd::Backward({LossWithGradient(parameters["b"], {1}, cpu(0))});  // cpu(1)'s share was empty
      trainer.Step(1, /*ignore_stale=*/true);
      parameters["a"].ZeroGrad();
    }
    EXPECT_EQ(parameters["a"].data(cpu(1)).ToScalar(), -4);
    EXPECT_EQ(parameters["b"].data(cpu(1)).ToScalar(), 0);
    EXPECT_EQ(parameters["b"].grad(cpu(0)).ToScalar(), 2);
    EXPECT_EQ(parameters["b"].grad(cpu(1)).ToScalar(), 0);
  }
}

}  // namespace
}  // namespace sluice::testing
