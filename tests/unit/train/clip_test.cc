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

}  // namespace
}  // namespace sluice::testing
