// Tests clipping by the global norm, alone and in a Trainer. The reference is the definition in float64.
#include "sluice/clip.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "sluice/trainer.h"
#include "unit/expect_error.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ClipGlobalNorm, ThreeFourFive) {
  const NDArray three = NDArray::From({3}, {1}), four = NDArray::From({0, -4}, {2}, cpu(1));
  EXPECT_EQ(ClipGlobalNorm({three, four}, 10), 5);
  EXPECT_EQ(ClipGlobalNorm({three, four}, 5), 5);  // not larger: nothing happens
  EXPECT_THAT(three.ToVector(), ElementsAre(3));
  EXPECT_EQ(ClipGlobalNorm({three, four}, 2.5), 5);
  EXPECT_THAT(three.ToVector(), ElementsAre(1.5f));
  EXPECT_THAT(four.ToVector(), ElementsAre(0, -2));
  EXPECT_EQ(ClipGlobalNorm({three, four}, 0), 2.5);
  EXPECT_THAT(four.ToVector(), ElementsAre(0, 0));
  EXPECT_EQ(ClipGlobalNorm({three, four}, 0), 0);
  EXPECT_EQ(ClipGlobalNorm({}, 1), 0);
}

TEST(ClipGlobalNorm, FollowsTheDefinitionOverContextsTypesAndSizes) {
  Rng rng(5);
  const DType types[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<NDArray> arrays;
    std::vector<std::vector<float>> before;
    double squares = 0;
    for (int i = 0; i < 5; ++i) {
      const auto n = static_cast<int64_t>(rng.Below(trial < 10 ? 40 : 5000));
      std::vector<float> values(static_cast<size_t>(n));
      for (float& value : values) value = static_cast<float>(rng.Normal());
      arrays.push_back(NDArray::From(std::span<const float>(values), {n}, cpu(i % 2)).AsType(types[i % 3]));
      before.push_back(arrays.back().AsType(DType::kFloat32).ToVector());
      for (const float value : before.back()) squares += double{value} * value;
    }
    const double norm = std::sqrt(squares), max_norm = norm * (rng.Uniform() + 0.25);
    ASSERT_NEAR(ClipGlobalNorm(arrays, max_norm), norm, 1e-12 * norm);
    const double factor = std::min(1.0, max_norm / norm);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const double tolerance = types[i % 3] == DType::kFloat32 ? 1e-7 : (i % 3 == 1 ? 0x1p-11 : 0x1p-8);
      const auto after = arrays[i].AsType(DType::kFloat32).ToVector();
      for (size_t j = 0; j < after.size(); ++j)
        ASSERT_NEAR(after[j], factor * before[i][j], tolerance * std::abs(before[i][j]) + 1e-7);
    }
  }
}

TEST(ClipGlobalNorm, LargeNumbersDoNotOverflowTheSum) {
  const NDArray array = NDArray::From({3e38f, 3e38f}, {2});
  EXPECT_NEAR(ClipGlobalNorm({array}, 1) / 3e38, std::sqrt(2), 1e-6);
  EXPECT_THAT(array.ToVector(), ElementsAre(::testing::FloatEq(std::sqrt(0.5f)), std::sqrt(0.5f)));
}

TEST(ClipGlobalNorm, ANormThatIsNotFiniteIsToldAndChangesNothing) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const NDArray fine = NDArray::From({30}, {1}), array = NDArray::From({1, bad}, {2});
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(std::isfinite(ClipGlobalNorm({fine, array}, 1)));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("array 1 of 2"));
    EXPECT_THAT(fine.ToVector(), ElementsAre(30));
    EXPECT_EQ(array.ToVector()[0], 1);
  }
}

TEST(ClipGlobalNorm, WhatItCannotClipIsRefused) {
  const NDArray array = NDArray::From({1}, {1});
  const auto refused = [](const std::vector<NDArray>& arrays, double max_norm) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ClipGlobalNorm(arrays, max_norm); });
  };
  EXPECT_THAT(refused({array}, -1), HasSubstr("max_norm is -1"));
  EXPECT_THAT(refused({array}, std::nan("")), HasSubstr("max_norm is nan"));
  EXPECT_THAT(refused({array, NDArray({1}, cpu(0), DType::kInt32)}, 1), HasSubstr("array 1 is int32"));
  EXPECT_THAT(refused({NDArray()}, 1), HasSubstr("array 0 is no array"));
  EXPECT_EQ(ClipGlobalNorm({array}, kInfinity), 1);
}

// Between the two halves of a step, on two contexts: sums 6 and 8, norm 10, clipped to a mean of norm 2.5.
TEST(ClipGlobalNorm, StandsBetweenAllreduceAndUpdate) {
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("a", {0}, Cpus(2)));
  parameters.Add(MakeParameter("b", {0}, Cpus(2)));
  Trainer trainer(parameters, {.learning_rate = 1}, StoreOf("device"), {.update_on_kvstore = false});
  BackwardWith(*parameters.at(0), {{2}, {4}});
  BackwardWith(*parameters.at(1), {{9}, {-1}});
  trainer.AllreduceGrads();
  for (const Context context : Cpus(2)) {
    std::vector<NDArray> gradients;
    for (const auto& parameter : parameters) gradients.push_back(parameter->grad(context));
    EXPECT_EQ(ClipGlobalNorm(gradients, 2.5 * 2), 10);
  }
  trainer.Update(2);
  for (const Context context : Cpus(2)) {
    EXPECT_THAT(parameters.at(0)->data(context).ToVector(), ElementsAre(-1.5f));
    EXPECT_THAT(parameters.at(1)->data(context).ToVector(), ElementsAre(-2));
  }
}

// Steps of two parameters, whose gradients a test names, beside SGD with momentum in float64.
class TrainerClips : public ::testing::TestWithParam<int> {
 protected:
  static constexpr double kRate = 0.5, kMomentum = 0.75;
  static constexpr int64_t kBatch = 3;
  using Gradients = std::vector<std::vector<float>>;  // by context

  std::unique_ptr<Trainer> Make(double max_norm) {
    parameters_ = {};
    parameters_.Add(MakeParameter("a", {1, -2, 3}, contexts_));
    parameters_.Add(MakeParameter("b", {-4, 5}, contexts_));
    return std::make_unique<Trainer>(
        parameters_, OptimizerConfig{.learning_rate = kRate, .momentum = kMomentum}, StoreOf("device"),
        TrainerOptions{.update_on_kvstore = false, .clip_global_norm = max_norm});
  }
  Gradients Random(size_t elements, double size) {
    Gradients gradients(contexts_.size(), std::vector<float>(elements));
    for (auto& of_context : gradients)
      for (float& g : of_context) g = static_cast<float>(size * rng_.Normal());
    return gradients;
  }
  void Expect(const std::vector<Gradients>& gradients, double max_norm) {
    std::vector<double> mean(weights_.size());
    double squares = 0;
    for (size_t i = 0; i < mean.size(); ++i) {
      const auto& of_parameter = gradients[i < 3 ? 0 : 1];
      for (const auto& of_context : of_parameter) mean[i] += of_context[i < 3 ? i : i - 3] / double{kBatch};
      squares += mean[i] * mean[i];
    }
    const double factor = std::min(1.0, max_norm / std::sqrt(squares));
    clipped_ += factor < 1;
    for (size_t i = 0; i < mean.size(); ++i) {
      velocities_[i] = kMomentum * velocities_[i] - kRate * factor * mean[i];
      weights_[i] += velocities_[i];
    }
  }
  void Check() {
    for (const Context& context : contexts_) {
      std::vector<float> values = parameters_.at(0)->data(context).ToVector();
      for (const float value : parameters_.at(1)->data(context).ToVector()) values.push_back(value);
      EXPECT_THAT(values, ::testing::Pointwise(::testing::FloatNear(3e-6f), weights_)) << context;
    }
  }

  Rng rng_{11};
  const std::vector<Context> contexts_ = Cpus(GetParam());
  nn::ParameterDict parameters_;
  std::vector<double> weights_ = {1, -2, 3, -4, 5}, velocities_ = std::vector<double>(5);
  int clipped_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Contexts, TrainerClips, ::testing::Values(1, 3));

TEST_P(TrainerClips, EveryStepByTheNormOverAllParametersAndContexts) {
  constexpr double kMaxNorm = 1;
  constexpr int kSteps = 12;
  const auto trainer = Make(kMaxNorm);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Gradients> gradients = {Random(3, step % 4), Random(2, 1)};
    if (step % 3 == 1) trainer->PushDuringBackward(kBatch);
    BackwardWith(*parameters_.at(0), gradients[0]);
    BackwardWith(*parameters_.at(1), gradients[1]);
    if (step % 3 == 2) {
      trainer->AllreduceGrads();
      trainer->Update(kBatch);
    } else {
      trainer->Step(kBatch);
    }
    Expect(gradients, kMaxNorm);
    Check();
  }
  EXPECT_GT(clipped_, 0);
  EXPECT_LT(clipped_, kSteps);
}

TEST_P(TrainerClips, ANormThatIsNotFiniteClipsNothing) {
  const auto trainer = Make(1e-3);
  Gradients bad = Random(3, 1);
  bad[0][0] = std::numeric_limits<float>::infinity();
  const Gradients fine = Random(2, 1);
  const auto told = [&] {
    BackwardWith(*parameters_.at(0), bad);
    BackwardWith(*parameters_.at(1), fine);
    ::testing::internal::CaptureStderr();
    trainer->Step(kBatch);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(), HasSubstr("because of a: nothing is clipped"));
  Expect({bad, fine}, kInfinity);
  for (const Context& context : contexts_) {
    EXPECT_EQ(parameters_.at(0)->data(context).ToVector()[0], -kInfinity);
    EXPECT_NEAR(parameters_.at(1)->data(context).ToVector()[1], weights_[4], 3e-6);
  }
  EXPECT_EQ(told(), "");  // once
}

// A context whose share of a batch was empty, and a parameter that nothing led to.
TEST_P(TrainerClips, WhatNoBackwardWroteCountsAsZero) {
  const auto trainer = Make(1e-3);
  for (int step = 0; step < 3; ++step) {
    Gradients first = Random(3, 1);
    autograd::Backward({LossWithGradient(*parameters_.at(0), first[0], contexts_[0])});
    trainer->ZeroStaleGrads();
    trainer->Step(kBatch);
    for (size_t i = 1; i < first.size(); ++i) first[i].assign(3, 0);
    Expect({first, Random(2, 0)}, 1e-3);
    Check();
  }
  EXPECT_EQ(clipped_, 3);
}

TEST_P(TrainerClips, OptionsThatCannotBeAreRefused) {
  const auto refused = [&](const TrainerOptions& options, const std::string& store) {
    return ErrorOf(ErrorCode::kInvalidArgument,
                   [&] { Trainer(parameters_, OptimizerConfig{}, StoreOf(store), options); });
  };
  EXPECT_THAT(refused({.clip_global_norm = 1}, "local"), HasSubstr("needs update_on_kvstore = false"));
  for (const double bad : {-1.0, std::nan("")}) {
    EXPECT_THAT(refused({.update_on_kvstore = false, .clip_global_norm = bad}, "local"),
                HasSubstr("clip_global_norm is "));
  }
}

}  // namespace
}  // namespace sluice::testing
