// Async keys: every push is an update, atomic per key, in the order of its worker.
#include <gmock/gmock.h>

#include "base/rng.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kAsync = wire::SyncMode::kAsync;

TEST(ShardAsync, AfterAllPushesTheWeightIsTheStartPlusAllUpdates) {
  constexpr uint32_t kWorkers = 4;
  constexpr uint64_t kPushes = 6;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    ShardHarness harness(kWorkers);
    ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(2), {}).ok());
    const uint32_t key = harness.AddKey(std::vector<float>(200, 7), kAsync, 64);  // 4 parts
    float sum = 0;
    for (uint32_t w = 0; w < kWorkers; ++w)
      for (uint64_t r = 1; r <= kPushes; ++r) sum += static_cast<float>((w + 1) * r);
    // Part by part, in any order, each twice.
    for (const uint64_t pick : rng.Permutation(2 * kWorkers * kPushes * 4)) {
      const uint64_t push = pick / 2;
      const auto worker = static_cast<uint32_t>(push % kWorkers);
      const uint64_t round = push / kWorkers % kPushes + 1;
      const auto part = static_cast<uint32_t>(push / kWorkers / kPushes);
      const std::vector<float> gradient(part == 3 ? 8 : 64, static_cast<float>((worker + 1) * round));
      ASSERT_TRUE(OnlyAck(harness.PushPart(worker, {key, part}, round, gradient)));
    }
    ASSERT_THAT(harness.Weight<float>(key), Each(7 + 2 * sum)) << "seed " << seed;
    for (uint32_t w = 0; w < kWorkers; ++w) ASSERT_THAT(harness.Versions(key, w), Each(kPushes));
  }
}

TEST(ShardAsync, APushIsSeenWholeOrNotAtAll) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(4 * 64), kAsync, 64);
  const std::vector<float> ones(64, 1);
  for (const uint32_t part : {2u, 0u, 3u}) {
    harness.PushPart(1, {key, part}, 1, ones);
    EXPECT_THAT(harness.Weight<float>(key), Each(0));
  }
  EXPECT_TRUE(harness.Pull(1, key, 1).empty());
  auto answers = harness.PushPart(1, {key, 1}, 1, ones);
  std::erase_if(answers, [](const Sent& sent) { return sent.Is<wire::Ack>(); });
  EXPECT_THAT(harness.Join<float>(answers), ::testing::AllOf(::testing::SizeIs(4 * 64), Each(1)));
}

// Three workers make a step of three updates; a worker that has finished or died was one of them.
TEST(ShardAsync, ASchedulesStepIsAPushOfEveryWorker) {
  for (const auto state : {wire::NodeState::kAlive, wire::NodeState::kFinished, wire::NodeState::kDead}) {
    OptimizerConfig config{.learning_rate = 1};
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = 0.5;
    config.schedule.steps = {2};
    ShardHarness harness(3);
    ASSERT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
    const uint32_t key = harness.AddKey(std::vector<float>{0}, kAsync);
    harness.roster[2].state = state;
    harness.SetMembership(2);
    for (uint64_t push = 1; push <= 6; ++push) harness.Push<float>(push % 2, key, (push + 1) / 2, {1});
    EXPECT_THAT(harness.Weight<float>(key), ElementsAre(-6));
    harness.Push<float>(0, key, 4, {1});
    EXPECT_THAT(harness.Weight<float>(key), ElementsAre(-6.5));
  }
}

TEST(ShardAsync, AWorkersPushesApplyInItsOrder) {
  ShardHarness harness(1);
  OptimizerConfig config;  // with momentum the order shows
  config.learning_rate = 1;
  config.momentum = 0.5;
  ASSERT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0}, kAsync);
  harness.Push<float>(0, key, 2, {10});
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(0));
  harness.Push<float>(0, key, 1, {4});
  // v = -4, w = -4; v = -2 - 10, w = -16. The other order would end at -19.
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(-16));
}

TEST(ShardAsync, APullWaitsForItsOwnWorkersPushOnly) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0}, kAsync);
  harness.Push<float>(0, key, 1, {1});
  EXPECT_TRUE(harness.Pull(1, key, 1).empty());
  const auto answers = harness.Push<float>(1, key, 1, {1}, {.want_value = true});
  ASSERT_FALSE(answers.empty());
  for (const Sent& sent : answers) {
    EXPECT_THAT(ValuesOf<float>(sent.message.payload[0]), ElementsAre(2));
    EXPECT_EQ(sent.As<wire::Values>().parts[0].version, 1u);  // its own pushes, not everybody's
  }
}

TEST(ShardAsync, EachPushIsScaledByItsOwnDivisorOrSamples) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<double>{0}, kAsync);
  harness.Push<double>(0, key, 1, {8}, {.samples = 2, .divisor = 4});
  harness.Push<double>(1, key, 1, {8}, {.samples = 2, .divisor = 8});
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(3));
  OptimizerConfig by_samples = Accumulate();
  by_samples.normalize_by_samples = true;
  ASSERT_TRUE(harness.shard.SetOptimizer(by_samples, {{key, 1000}}).ok());  // async: from now on
  harness.Push<double>(0, key, 2, {8}, {.samples = 2, .divisor = 4});
  harness.Push<double>(1, key, 2, {8}, {.samples = 0});
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(7));
}

TEST(ShardAsync, AssigningIsRefused) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{3}, kAsync);
  EXPECT_THAT(ErrorOf(harness.Push<float>(0, key, 1, {1})), HasSubstr("SetOptimizer"));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(3));
}

TEST(ShardAsync, TheWindowIsTheWorkersOwn) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0}, kAsync);
  for (uint64_t round = 1; round <= 20; ++round) harness.Push<float>(0, key, round, {1});
  EXPECT_TRUE(OnlyAck(harness.Push<float>(1, key, plan::kMaxRoundsAhead, {1})));
  EXPECT_THAT(ErrorOf(harness.Push<float>(1, key, plan::kMaxRoundsAhead + 1, {1})),
              HasSubstr("rounds ahead"));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(20));
}

}  // namespace
}  // namespace sluice::testing
