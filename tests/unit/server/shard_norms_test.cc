// UpdateQueue by norms over a whole key: its parts close together.
#include <gmock/gmock.h>

#include <cmath>

#include "golden/optimizer/formulas.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kPart = 64;
constexpr size_t kElements = 160;  // two parts and a half

OptimizerConfig Lamb() {
  return {.kind = OptimizerKind::kLamb, .learning_rate = 0.1, .wd = 0.01};
}

std::vector<float> Values(double seed) {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < kElements; ++i)
    values[i] = static_cast<float>(std::cos(seed * static_cast<double>(i + 1)));
  return values;
}
std::vector<float> PartOf(const std::vector<float>& values, uint32_t part) {
  const size_t begin = part * kPart;
  return {values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kPart, kElements))};
}

class ShardNorms : public ::testing::TestWithParam<wire::SyncMode> {
 protected:
  uint32_t AddKey() {
    for (const float w : Values(1)) expected_.push_back({.weight = w});
    return harness_.AddKey(Values(1), GetParam(), kPart);
  }
  void Expect(int64_t t, const std::vector<float>& gradient) {
    reference::UpdateArray(Lamb(), {.rate = 0.1, .t = t},
                           std::vector<double>(gradient.begin(), gradient.end()), expected_);
  }
  void Check(uint32_t key) {
    const auto weight = harness_.Weight<float>(key);
    ASSERT_EQ(weight.size(), kElements);
    for (size_t i = 0; i < kElements; ++i) ASSERT_NEAR(weight[i], expected_[i].weight, 1e-6) << i;
  }

  ShardHarness harness_{1};
  std::vector<reference::Element> expected_;
};

TEST_P(ShardNorms, ARoundClosesWhenEveryPartHasCome) {
  ASSERT_TRUE(harness_.shard.SetOptimizer(Lamb(), {}).ok());
  const uint32_t key = AddKey();
  for (uint64_t round = 1; round <= 3; ++round) {
    const auto gradient = Values(0.3 + static_cast<double>(round));
    for (const uint32_t part : {2u, 0u, 1u}) {
      Check(key);  // nothing of the round shows yet
      harness_.PushPart(0, {key, part}, round, PartOf(gradient, part));
    }
    Expect(static_cast<int64_t>(round), gradient);
    Check(key);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardNorms, ::testing::Values(wire::SyncMode::kSync, wire::SyncMode::kAsync),
                         [](const auto& info) { return std::string(wire::Name(info.param)); });

// Parts that are rounds ahead wait for the others, and go on alone once the optimiser lets them.
TEST(ShardNormsOfRounds, PartsPartAgainWithTheNextOptimizer) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>(2 * kPart, 1), wire::SyncMode::kSync, kPart);
  OptimizerConfig lamb = Lamb();
  lamb.wd = 0;
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(1), {}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(lamb, {{key, 2}}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(1), {{key, 3}}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(lamb, {{key, 4}}).ok());
  const std::vector<float> ones(kPart, 1);
  for (uint64_t round = 1; round <= 4; ++round) harness.PushPart(0, {key, 0}, round, ones);
  EXPECT_THAT(harness.Versions(key), ElementsAre(1, 0));
  harness.PushPart(0, {key, 1}, 1, ones);
  EXPECT_THAT(harness.Versions(key), ElementsAre(1, 1));
  EXPECT_THAT(harness.shard.DumpState({}), HasSubstr("part 0 version 1, round 2 waits for worker 0"));
  harness.PushPart(0, {key, 1}, 2, ones);  // 2 becomes 2 - 0.1 * 2
  EXPECT_THAT(harness.Versions(key), ElementsAre(3, 2));
  harness.PushPart(0, {key, 1}, 4, ones);  // overtakes
  EXPECT_THAT(harness.Versions(key), ElementsAre(3, 2));
  harness.PushPart(0, {key, 1}, 3, ones);
  EXPECT_THAT(harness.Versions(key), ElementsAre(4, 4));
  EXPECT_THAT(harness.Weight<float>(key), Each(::testing::FloatNear((1.8f + 1) * 0.9f, 1e-5f)));
}

TEST(ShardNormsOfRounds, ADeathClosesTheWholeKey) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Lamb(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(2 * kPart, 1), wire::SyncMode::kSync, kPart);
  harness.Push(0, key, 1, std::vector<float>(2 * kPart, 1));
  harness.PushPart(1, {key, 0}, 1, std::vector<float>(kPart, 1));
  EXPECT_THAT(harness.Versions(key), ElementsAre(0, 0));
  harness.roster[1].state = wire::NodeState::kDead;
  harness.SetMembership(2);
  EXPECT_THAT(harness.Versions(key), ElementsAre(1, 1));
}

TEST(ShardNormsOfRounds, AKeyOfSeveralShardsIsNotTaken) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer(Lamb(), {}).ok());
  auto entry = ShardHarness::EntryOf(0, DType::kFloat32, 128, wire::SyncMode::kSync, kPart);
  entry.slices = {{0, 0, 64}, {1, 64, 64}};
  const Status refused = harness.shard.AddKeys({entry});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("key 0 of 128 elements is cut into 2 slices"));
}

}  // namespace
}  // namespace sluice::testing
