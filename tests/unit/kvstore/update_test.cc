// Tests kvstore/update: sums and updates of a part, to the last bit, at every size and alignment. The
// optimisers' formulas, element by element, are the reference.
#include "kvstore/update/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/rng.h"
#include "kvstore/update/sum.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

using ::testing::HasSubstr;

wire::KeySpec SpecOf(DType dtype, size_t n) {
  return {std::string("w"), dtype, Shape{static_cast<int64_t>(n)}};
}

template <typename T>
std::vector<T> RandomWholes(Rng& rng, size_t n) {
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(rng.Below(100));
  return values;
}

// Frames as they arrive: `shift` bytes off any alignment.
template <typename T>
struct Gradients {
  Gradients(const std::vector<std::vector<T>>& values, size_t shift) {
    for (const auto& one : values) {
      frames.emplace_back(one.size() * sizeof(T) + shift);
      std::memcpy(frames.back().data() + shift, one.data(), one.size() * sizeof(T));
      pointers.push_back({frames.back().data() + shift, one.size() * sizeof(T)});
    }
  }
  std::vector<Buffer> frames;
  std::vector<Encoded> pointers;
};

template <typename T>
class SumOfType : public ::testing::Test {};
using SummedTypes = ::testing::Types<float, double, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(SumOfType, SummedTypes);

TYPED_TEST(SumOfType, FramesAtAnyAlignmentInTheirOrder) {
  using T = TypeParam;
  Rng rng(1);
  for (size_t round = 0; round < 40; ++round) {
    const size_t n = std::array{1, 7, 64, 1000}[round % 4];
    std::vector<std::vector<T>> values(1 + round / 4);
    for (auto& one : values) one = RandomWholes<T>(rng, n + 3);
    const Gradients<T> gradients(values, 1);
    std::vector<T> out(n);
    if constexpr (std::is_same_v<T, float>) {
      SumBlock(DType::kFloat32, gradients.pointers, 3, n, out.data());
    } else {
      SumBlock(gradients.pointers, 3, n, out.data());
    }
    for (size_t i = 0; i < n; ++i) {
      T expected{};
      for (const auto& one : values) expected = static_cast<T>(expected + one[3 + i]);
      ASSERT_EQ(out[i], expected) << i << " of " << n << ", " << values.size() << " frames";
    }
  }
}

TEST(Sum, AddsInRankOrderToTheLastBit) {
  const Gradients<float> a({{1e8f}, {1.0f}, {-1e8f}}, 0), b({{1e8f}, {-1e8f}, {1.0f}}, 0);
  float sum = -1;
  SumBlock(DType::kFloat32, a.pointers, 0, 1, &sum);
  EXPECT_EQ(sum, 0.0f);  // (1e8 + 1) - 1e8: the 1 is lost
  SumBlock(DType::kFloat32, b.pointers, 0, 1, &sum);
  EXPECT_EQ(sum, 1.0f);
}

// Several are read at once; the result is that of one after the other.
TEST(Sum, OfAnyNumberIsThatOfOneAfterTheOther) {
  Rng rng(2);
  std::vector<std::vector<float>> values;
  for (int count = 1; count <= 12; ++count) {
    values.emplace_back(77);
    for (float& v : values.back()) v = static_cast<float>(rng.Below(1 << 20)) * 1e-3f - 500;
    const Gradients<float> gradients(values, 1);
    std::vector<float> expected = values.front(), sum(77);
    for (size_t s = 1; s < values.size(); ++s)
      for (size_t i = 0; i < 77; ++i) expected[i] += values[s][i];
    SumBlock(DType::kFloat32, gradients.pointers, 0, 77, sum.data());
    ASSERT_EQ(sum, expected) << count << " gradients";
  }
}

TEST(Sum, WholeNumbersWrap) {
  const Gradients<int32_t> gradients({{INT32_MAX}, {2}}, 0);
  int32_t sum = 0;
  SumBlock(gradients.pointers, 0, 1, &sum);
  EXPECT_EQ(sum, INT32_MIN + 1);
}

// 2048 + 1 + 1 is 2048 when each sum is rounded to 16 bits; it must be 2050, which float16 holds.
TEST(Sum, HalvesAreSummedInFloat) {
  std::vector<std::vector<Half>> values;
  for (const float v : {2048.0f, 1.0f, 1.0f}) values.push_back(std::vector<Half>(1500, HalfFromFloat(v)));
  const Gradients<Half> gradients(values, 1);
  std::vector<float> out(1500);
  SumBlock(DType::kFloat16, gradients.pointers, 0, 1500, out.data());
  EXPECT_THAT(out, ::testing::Each(2050.0f));
}

// sgd with momentum, decay, clipping and a divisor against float64, across block borders.
TEST(UpdatePart, FollowsTheFormulaAtEverySize) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kSgd;
  config.learning_rate = 0.1;
  config.momentum = 0.9;
  config.wd = 0.01;
  config.clip_gradient = 0.5;
  config.multipliers["w"] = {.lr_mult = 0.5, .wd_mult = 2};
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  Rng rng(2);
  for (const size_t n : {size_t{1}, size_t{2047}, size_t{2048}, size_t{2049}, size_t{5000}}) {
    const wire::KeySpec spec = SpecOf(DType::kFloat32, n);
    std::vector<float> weight(n);
    for (float& w : weight) w = static_cast<float>(rng.Normal());
    std::vector<double> w64(weight.begin(), weight.end()), v64(n);
    const auto slot = std::make_shared<Buffer>(SlotBytes(DType::kFloat32, n));
    std::memset(slot->data(), 0, slot->size());
    for (int round = 1; round <= 3; ++round) {
      std::vector<std::vector<float>> values(3, std::vector<float>(n));
      for (auto& one : values)
        for (float& g : one) g = static_cast<float>(rng.Normal());
      const Gradients<float> gradients(values, 3);
      std::vector<float> fresh(n);
      const UpdateInput input{
          .spec = &spec, .length = n, .gradients = gradients.pointers, .scale = 1.0 / 3, .num_update = round};
      UpdatePart(rule, input, reinterpret_cast<const std::byte*>(weight.data()),
                 reinterpret_cast<std::byte*>(fresh.data()), std::span(&slot, 1));
      weight = fresh;
      for (size_t i = 0; i < n; ++i) {
        double g = (double{values[0][i]} + values[1][i] + values[2][i]) / 3;
        g = std::clamp(g, -0.5, 0.5) + 0.01 * 2 * w64[i];
        v64[i] = 0.9 * v64[i] - 0.1 * 0.5 * g;
        w64[i] += v64[i];
        ASSERT_NEAR(weight[i], w64[i], 2e-6) << "element " << i << " of " << n << ", round " << round;
      }
    }
  }
}

TEST(UpdatePart, InPlaceIsTheSameAsIntoOtherMemory) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kAdam;
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    constexpr size_t n = 3000;
    const wire::KeySpec spec = SpecOf(dtype, n);
    Buffer gradient(n * SizeOf(dtype)), weight(n * SizeOf(dtype)), fresh(n * SizeOf(dtype));
    std::memset(gradient.data(), 0x31, gradient.size());  // some finite number in every type
    std::memset(weight.data(), 0x33, weight.size());
    const Encoded frames[] = {{gradient.data()}};
    const auto slots = [&] {
      std::vector<std::shared_ptr<Buffer>> made;
      for (int i = 0; i < 2; ++i) {
        made.push_back(std::make_shared<Buffer>(SlotBytes(dtype, n)));
        std::memset(made.back()->data(), 0, made.back()->size());
      }
      return made;
    };
    const UpdateInput input{.spec = &spec, .length = n, .gradients = frames};
    UpdatePart(rule, input, weight.data(), fresh.data(), slots());
    EXPECT_NE(std::memcmp(weight.data(), fresh.data(), fresh.size()), 0) << Name(dtype);
    Buffer non_temporal(fresh.size());
    UpdateInput with_bypass = input;
    with_bypass.non_temporal = true;
    UpdatePart(rule, with_bypass, weight.data(), non_temporal.data(), slots());
    EXPECT_EQ(std::memcmp(non_temporal.data(), fresh.data(), fresh.size()), 0) << Name(dtype);
    UpdatePart(rule, input, weight.data(), weight.data(), slots());
    EXPECT_EQ(std::memcmp(weight.data(), fresh.data(), fresh.size()), 0) << Name(dtype);
  }
}

// Stores past the caches give the same bits as stores through them, whatever is read, in whichever pieces.
TEST(UpdateRange, NonTemporalStoresGiveTheSameBitsByEveryRule) {
  constexpr size_t n = 5000, cut = 2112;
  const wire::KeySpec spec = SpecOf(DType::kFloat32, n);
  Rng rng(5);
  const auto noise = [&] {
    std::vector<float> values(n);
    for (float& v : values) v = static_cast<float>(rng.Normal());
    return values;
  };
  const Gradients<float> gradients({noise(), noise(), noise()}, 1);
  const std::vector<float> weight = noise(), sum = noise();
  std::vector<UpdateRule> rules(1);
  for (const OptimizerKind kind : {OptimizerKind::kAccumulate, OptimizerKind::kSgd, OptimizerKind::kLamb}) {
    rules.push_back({.optimizer = Optimizer::Create({.kind = kind, .momentum = 0.9}), .updater = nullptr});
  }
  for (const UpdateRule& rule : rules) {
    for (const bool summed : {false, true}) {
      const auto update = [&](bool non_temporal) {
        States states;
        FitStates(rule.optimizer.get(), DType::kFloat32, n, &states);
        UpdateInput input{
            .spec = &spec, .length = n, .gradients = gradients.pointers, .non_temporal = non_temporal};
        if (summed) {
          input.gradients = {};
          input.summed = reinterpret_cast<const std::byte*>(sum.data());
        }
        const auto* old = reinterpret_cast<const std::byte*>(weight.data());
        if (rule.needs_norms()) MeasurePart(rule, input, old, states.arrays, &input.norms);
        std::vector<float> fresh(n);
        auto* to = reinterpret_cast<std::byte*>(fresh.data());
        UpdateRange(rule, input, old, to, states.arrays, cut, n);
        UpdateRange(rule, input, old, to, states.arrays, 0, cut);
        return fresh;
      };
      EXPECT_EQ(update(true), update(false));
    }
  }
}

// Its state belongs to (store, key, offset): include/sluice/updater.h.
TEST(UpdatePart, AProgramsFunctionSeesTheSameBlocksAroundTheCachesOrNot) {
  constexpr size_t n = 5000;
  const wire::KeySpec spec = SpecOf(DType::kFloat32, n);
  const Gradients<float> gradients({std::vector<float>(n, 1)}, 0);
  const std::vector<float> weight(n, 2);
  const auto blocks = [&](bool non_temporal) {
    std::vector<std::pair<int64_t, size_t>> seen;
    const UpdateRule rule{
        .optimizer = nullptr,
        .updater = [&](const UpdateContext& block, std::span<const float> g, std::span<float> w) {
          seen.emplace_back(block.offset, g.size());
          for (size_t i = 0; i < w.size(); ++i) w[i] += g[i];
        }};
    std::vector<float> fresh(n);
    UpdatePart(
        rule, {.spec = &spec, .length = n, .gradients = gradients.pointers, .non_temporal = non_temporal},
        reinterpret_cast<const std::byte*>(weight.data()), reinterpret_cast<std::byte*>(fresh.data()), {});
    EXPECT_THAT(fresh, ::testing::Each(3));
    return seen;
  };
  EXPECT_EQ(blocks(true), blocks(false));
}

TEST(UpdatePart, WhatIsAssignedGoesAroundTheCachesToo) {
  const wire::KeySpec spec = SpecOf(DType::kFloat32, 3);
  const Gradients<float> gradients({{1, 2, 3}, {3, 5, 7}}, 1);
  float weight[3] = {}, fresh[3] = {};
  UpdatePart({}, {.spec = &spec, .length = 3, .gradients = gradients.pointers, .non_temporal = true},
             reinterpret_cast<const std::byte*>(weight), reinterpret_cast<std::byte*>(fresh), {});
  EXPECT_THAT(fresh, ::testing::ElementsAre(4, 7, 10));
  EXPECT_THAT(weight, ::testing::Each(0));
}

TEST(UpdatePart, WithoutARuleTheScaledSumIsAssigned) {
  const wire::KeySpec spec = SpecOf(DType::kFloat64, 2);
  const Gradients<double> gradients({{1, 2}, {3, 5}}, 1);
  double weight[] = {100, 100};
  auto* bytes = reinterpret_cast<std::byte*>(weight);
  UpdatePart({}, {.spec = &spec, .length = 2, .gradients = gradients.pointers, .scale = 0.5}, bytes, bytes,
             {});
  EXPECT_THAT(weight, ::testing::ElementsAre(2.0, 3.5));
}

TEST(UpdatePart, WholeNumbersAccumulateByAWholeFactor) {
  OptimizerConfig config;
  config.kind = OptimizerKind::kAccumulate;
  config.rescale_grad = -3;
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  const wire::KeySpec spec = SpecOf(DType::kInt64, 2);
  const int64_t large = (int64_t{1} << 60) + 1;  // a double would lose the 1
  const Gradients<int64_t> gradients({{1, -1}, {1, 0}}, 1);
  int64_t weight[] = {large, 7};
  auto* bytes = reinterpret_cast<std::byte*>(weight);
  UpdatePart(rule, {.spec = &spec, .length = 2, .gradients = gradients.pointers}, bytes, bytes, {});
  EXPECT_THAT(weight, ::testing::ElementsAre(large - 6, 10));
}

TEST(UpdatePart, AnUpdaterSeesEveryElementOnceWithItsPlace) {
  constexpr size_t n = 5000;
  std::vector<int> seen(n);
  UpdateRule rule;
  rule.updater = [&](const UpdateContext& at, std::span<const float> gradient, std::span<float> weight) {
    EXPECT_EQ(at.key, "w");
    EXPECT_EQ(at.round, 4u);
    EXPECT_EQ(at.samples, 12u);
    for (size_t i = 0; i < weight.size(); ++i) {
      ++seen[static_cast<size_t>(at.offset) - 640 + i];
      weight[i] += 10 * gradient[i];
    }
  };
  const wire::KeySpec spec = SpecOf(DType::kBFloat16, 100'000);
  const Gradients<BFloat16> gradients({std::vector<BFloat16>(n, BFloat16FromFloat(6))}, 1);
  std::vector<BFloat16> weight(n, BFloat16FromFloat(2)), fresh(n);
  const UpdateInput input{.spec = &spec,
                          .offset = 640,
                          .length = n,
                          .gradients = gradients.pointers,
                          .scale = 0.5,
                          .samples = 12,
                          .round = 4};
  UpdatePart(rule, input, reinterpret_cast<const std::byte*>(weight.data()),
             reinterpret_cast<std::byte*>(fresh.data()), {});
  EXPECT_THAT(seen, ::testing::Each(1));
  for (const BFloat16 w : fresh) ASSERT_EQ(ToFloat(w), 32.0f);
}

TEST(ValidateRule, SaysWhichKeyCannotBeUpdatedAndWhy) {
  OptimizerConfig sgd, factor, samples;
  factor.kind = samples.kind = OptimizerKind::kAccumulate;
  factor.rescale_grad = 0.5;
  samples.normalize_by_samples = true;
  const auto check = [](const OptimizerConfig& config, DType dtype) {
    const Status status =
        ValidateRule({.optimizer = Optimizer::Create(config), .updater = nullptr}, SpecOf(dtype, 1));
    return status.ok() ? std::string() : status.failure().message;
  };
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(check(sgd, dtype).empty(), IsFloating(dtype));
    EXPECT_EQ(check(factor, dtype).empty(), IsFloating(dtype));
    EXPECT_EQ(check(samples, dtype).empty(), IsFloating(dtype));
    EXPECT_TRUE(ValidateRule({}, SpecOf(dtype, 1)).ok());
  }
  EXPECT_THAT(check(sgd, DType::kInt32), HasSubstr("key w is int32"));
  EXPECT_THAT(check(sgd, DType::kInt32), HasSubstr("sgd"));
  const UpdateRule own{.optimizer = nullptr,
                       .updater = [](const UpdateContext&, std::span<const float>, std::span<float>) {}};
  EXPECT_TRUE(ValidateRule(own, SpecOf(DType::kFloat16, 1)).ok());
  EXPECT_FALSE(ValidateRule(own, SpecOf(DType::kFloat64, 1)).ok());
  EXPECT_FALSE(ValidateRule(own, SpecOf(DType::kUInt8, 1)).ok());
}

TEST(ValidateRule, NormsNeedTheWholeKeyInOnePlace) {
  wire::KeyEntry entry{.id = 0,
                       .spec = SpecOf(DType::kFloat32, 10),
                       .mode = wire::SyncMode::kSync,
                       .slices = {{0, 0, 10}},
                       .part_elements = 2};
  const auto rule = [](OptimizerKind kind) {
    return UpdateRule{.optimizer = Optimizer::Create({.kind = kind}), .updater = nullptr};
  };
  EXPECT_TRUE(ValidateRule(rule(OptimizerKind::kLamb), entry).ok());
  entry.slices = {{0, 0, 6}, {1, 6, 4}};
  EXPECT_TRUE(ValidateRule(rule(OptimizerKind::kAdam), entry).ok());
  EXPECT_THAT(ValidateRule(rule(OptimizerKind::kLamb), entry).failure().message,
              HasSubstr("key w of 10 elements is cut into 2 slices, but optimiser lamb"));
  entry.spec.dtype = DType::kInt32;
  EXPECT_THAT(ValidateRule(rule(OptimizerKind::kAdam), entry).failure().message, HasSubstr("key w is int32"));
}

TEST(FitStates, KeepsWhatHasTheSameNamesAndEveryMaster) {
  States states;
  const auto fit = [&](const OptimizerConfig& config) {
    FitStates(Optimizer::Create(config).get(), DType::kFloat16, 2, &states);
    return states.names;
  };
  const auto value = [&](size_t i) { return states.arrays.at(i)->as<float>()[1]; };
  using ::testing::ElementsAre;
  OptimizerConfig sgd{.momentum = 0.9}, nag{.kind = OptimizerKind::kNag}, adam{.kind = OptimizerKind::kAdam};
  EXPECT_THAT(fit(sgd), ElementsAre("momentum"));
  EXPECT_EQ(value(0), 0);
  states.arrays[0]->as<float>()[1] = 5;
  EXPECT_THAT(fit(nag), ElementsAre("momentum"));
  EXPECT_EQ(value(0), 5);
  nag.multi_precision = adam.multi_precision = true;
  EXPECT_THAT(fit(nag), ElementsAre("momentum", "master"));
  EXPECT_EQ(value(0), 5);
  EXPECT_EQ(value(1), 0);
  states.arrays[1]->as<float>()[1] = 7;
  EXPECT_THAT(fit(adam), ElementsAre("mean", "variance", "master"));
  EXPECT_EQ(value(0), 0);
  EXPECT_EQ(value(2), 7);
  EXPECT_THAT(fit(sgd), ElementsAre("momentum"));
  EXPECT_EQ(value(0), 0);
  FitStates(nullptr, DType::kFloat16, 2, &states);
  EXPECT_TRUE(states.arrays.empty());
  FitStates(Optimizer::Create(adam).get(), DType::kFloat32, 2, &states);  // no 16-bit weight: no master
  EXPECT_THAT(states.names, ElementsAre("mean", "variance"));
}

}  // namespace
}  // namespace sluice::kvstore
