// How weights change: when an optimiser takes over, its states, and a server's own updater.
#include <gmock/gmock.h>

#include "tensor/types/half.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OptimizerConfig Momentum(double learning_rate) {
  OptimizerConfig config;
  config.learning_rate = learning_rate;
  config.momentum = 0.5;
  return config;
}

TEST(ShardOptimizer, WithoutOneTheSumIsAssigned) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{100});
  for (const uint32_t w : {0u, 1u}) harness.Push<float>(w, key, 1, {2});
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(4));
}

TEST(ShardOptimizer, TakesOverAtTheRoundNamedForTheKey) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(1), {}).ok());
  const uint32_t a = harness.AddKey(std::vector<double>{0}), b = harness.AddKey(std::vector<double>{0});
  // Worker 1 is ahead with all of its pushes when the change to x100 comes: from a's round 3, from b's
  // round 2.
  for (const uint32_t key : {a, b})
    for (uint64_t round = 1; round <= 4; ++round) harness.Push<double>(1, key, round, {1});
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(100), {{a, 3}, {b, 2}}).ok());
  for (uint64_t round = 1; round <= 4; ++round) {
    for (const uint32_t key : {a, b}) harness.Push<double>(0, key, round, {0});
    const double of_a[] = {1, 2, 102, 202}, of_b[] = {1, 101, 201, 301};
    EXPECT_THAT(harness.Weight<double>(a), ElementsAre(of_a[round - 1]));
    EXPECT_THAT(harness.Weight<double>(b), ElementsAre(of_b[round - 1]));
  }
}

TEST(ShardOptimizer, SeveralChangesEachRuleTheirRounds) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<double>{0});
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(1), {{key, 2}}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(10), {{key, 3}}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(100), {{key, 4}}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(100), {{key, 4}}).ok());  // told again
  for (const double expected : {1.0, 2.0, 12.0, 112.0, 212.0}) {
    harness.Push<double>(0, key, harness.Versions(key)[0] + 1, {1});
    EXPECT_THAT(harness.Weight<double>(key), ElementsAre(expected));
  }
}

TEST(ShardOptimizer, AChangeOfTheLearningRateKeepsTheMomentum) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(1), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<double>{0});
  harness.Push<double>(0, key, 1, {4});  // v = -4
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(0.5), {{key, 2}}).ok());
  harness.Push<double>(0, key, 2, {4});  // v = -2 - 2
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(-8));
  EXPECT_THAT(harness.Weight<double>(key, 1), ElementsAre(-4));
}

// States of the same shape and another meaning: a momentum is no sum of squares.
TEST(ShardOptimizer, StatesOfOtherNamesBeginAtZero) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(1), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<double>{0});
  harness.Push<double>(0, key, 1, {4});  // v = -4
  ASSERT_TRUE(
      harness.shard
          .SetOptimizer({.kind = OptimizerKind::kAdaGrad, .learning_rate = 1, .epsilon = 0}, {{key, 2}})
          .ok());
  harness.Push<double>(0, key, 2, {3});
  EXPECT_THAT(harness.Weight<double>(key, 1), ElementsAre(9));
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(-5));
}

// States that come before the key's value: a master never stands for a weight that it does not round to.
TEST(ShardOptimizer, AMasterOfAnotherWeightCountsForNothing) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer({.learning_rate = 1, .multi_precision = true}, {}).ok());
  const uint32_t key = harness.AddKey(std::vector<Half>{HalfFromFloat(1), HalfFromFloat(1)});
  const float near = 1 + 0x1p-12f;
  const wire::Store store{.purpose = wire::Store::Purpose::kState, .parts = {{{key, 0}, 1, 0}}};
  EXPECT_TRUE(OnlyAck(harness.Deliver(0, store, {FrameOf(std::vector<float>{7, near})})));
  harness.Push(0, key, 1, std::vector<Half>(2, HalfFromFloat(0.5f)));
  EXPECT_THAT(harness.Weight<float>(key, 1), ElementsAre(0.5f, near - 0.5f));
}

TEST(ShardOptimizer, StatesAreReadAndWritten) {
  ShardHarness from(1), to(1);
  OptimizerConfig adam;
  adam.kind = OptimizerKind::kAdam;
  adam.learning_rate = 0.1;
  for (ShardHarness* harness : {&from, &to}) {
    ASSERT_TRUE(harness->shard.SetOptimizer(adam, {}).ok());
    harness->AddKey(std::vector<float>(100, 1), wire::SyncMode::kSync, 64);
  }
  EXPECT_THAT(from.Weight<float>(0, 1), Each(0));  // no update yet
  const std::vector<float> gradient(100, 0.25f);
  for (uint64_t round = 1; round <= 3; ++round) from.Push(0, 0, round, gradient);
  // Adam's first moment after three equal gradients: (1 - b1^3) g; the second likewise.
  for (const float m : from.Weight<float>(0, 1)) ASSERT_NEAR(m, (1 - 0.9 * 0.9 * 0.9) * 0.25, 1e-7);
  for (const float u : from.Weight<float>(0, 2)) ASSERT_NEAR(u, (1 - 0.999 * 0.999 * 0.999) * 0.0625, 1e-9);

  for (const uint32_t slot : {1u, 2u}) {
    for (const Sent& sent : from.Pull(0, 0, 0, slot)) {
      wire::Store store{.purpose = wire::Store::Purpose::kState, .parts = {}};
      for (const wire::ValuePart& part : sent.As<wire::Values>().parts) {
        EXPECT_EQ(part.version, 3u);
        store.parts.push_back({part.ref, slot, part.version});
      }
      EXPECT_TRUE(OnlyAck(to.Deliver(0, store, sent.message.payload)));
    }
  }
  EXPECT_EQ(to.Weight<float>(0, 1), from.Weight<float>(0, 1));
  // The same next step, bias correction of the fourth update included; only the weights began elsewhere.
  const float before = from.Weight<float>(0)[0];
  from.Push(0, 0, 4, gradient);
  to.Push(0, 0, 1, gradient);
  EXPECT_NEAR(1 - to.Weight<float>(0)[0], before - from.Weight<float>(0)[0], 2e-7);
}

TEST(ShardOptimizer, ABelatedRepeatOfAStoreUndoesNothing) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(0.5), {}).ok());
  const auto store = [&](float value) {
    wire::Message message;
    message.sender = {wire::Role::kWorker, 0, 1000};
    message.id = ++harness.last_id;
    message.body = wire::Store{.purpose = wire::Store::Purpose::kState, .parts = {{{key, 0}, 1, 1}}};
    message.payload = {FrameOf(std::vector<float>{value})};
    return message;
  };
  const wire::Message first = store(3), second = store(5);
  EXPECT_TRUE(OnlyAck(harness.DeliverRaw(harness.PeerOf(0), first)));
  harness.Push<float>(0, key, 1, {4});                                 // v = 1.5 - 2
  EXPECT_TRUE(OnlyAck(harness.DeliverRaw(harness.PeerOf(0), first)));  // the network repeats it
  EXPECT_THAT(harness.Weight<float>(key, 1), ElementsAre(-0.5));
  EXPECT_TRUE(OnlyAck(harness.DeliverRaw(harness.PeerOf(0), second)));
  EXPECT_THAT(harness.Weight<float>(key, 1), ElementsAre(5));
  EXPECT_TRUE(OnlyAck(harness.DeliverRaw(harness.PeerOf(0), first)));  // overtaken
  EXPECT_THAT(harness.Weight<float>(key, 1), ElementsAre(5));
}

// Plain SGD has no state, but a place in its schedule.
TEST(ShardOptimizer, TheNumberOfUpdatesIsReadAndWrittenWithoutStates) {
  OptimizerConfig config{.learning_rate = 1};
  config.schedule.kind = LrScheduleKind::kFactor;
  config.schedule.factor = 0.5;
  config.schedule.step = 2;
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>(100), wire::SyncMode::kSync, 64);
  const auto store = [&](uint64_t updates, const Frame& frame) {
    const wire::Store body{.purpose = wire::Store::Purpose::kState,
                           .parts = {{{key, 0}, 0, updates}, {{key, 1}, 0, updates}}};
    return harness.Deliver(0, body, {Frame(), frame});
  };
  EXPECT_THAT(ErrorOf(store(2, Frame())), HasSubstr("SetOptimizer"));
  ASSERT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
  harness.Push(0, key, 1, std::vector<float>(100, 8));  // at rate 1: -8
  const auto updates = [&] {
    std::vector<uint64_t> found;
    for (const Sent& sent : harness.Pull(0, key, 0, 1, wire::Pull::Want::kVersion)) {
      EXPECT_TRUE(sent.message.payload.empty());
      for (const wire::ValuePart& part : sent.As<wire::Values>().parts) found.push_back(part.version);
    }
    return found;
  };
  EXPECT_THAT(updates(), ElementsAre(1, 1));
  EXPECT_TRUE(OnlyAck(store(2, Frame())));
  EXPECT_THAT(updates(), ElementsAre(2, 2));
  EXPECT_THAT(ErrorOf(store(7, FrameOf(std::vector<float>{1}))), HasSubstr("4 bytes"));
  EXPECT_THAT(updates(), ElementsAre(2, 2));  // the sound first part was not taken either
  EXPECT_THAT(ErrorOf(store(uint64_t{1} << 63, Frame())), HasSubstr("at most 9007199254740992"));
  harness.Push(0, key, 2, std::vector<float>(100, 8));  // the third update, at rate 1/2
  EXPECT_THAT(harness.Weight<float>(key), Each(-12));
}

TEST(ShardOptimizer, StatesThatDoNotExistAreErrors) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{1});
  EXPECT_THAT(ErrorOf(harness.Pull(0, key, 0, 1)), HasSubstr("has 0 optimiser states"));
  const Frame state = FrameOf(std::vector<float>{1});
  const auto store = [&](uint32_t slot, const Frame& frame) {
    return ErrorOf(harness.Deliver(
        0, wire::Store{.purpose = wire::Store::Purpose::kState, .parts = {{{key, 0}, slot, 1}}}, {frame}));
  };
  EXPECT_THAT(store(1, state), HasSubstr("SetOptimizer"));
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(1), {}).ok());
  EXPECT_EQ(store(1, state), "");
  EXPECT_NE(store(2, state), "");
  EXPECT_NE(store(0, state), "");
  EXPECT_THAT(store(1, state.Slice(0, 3)), HasSubstr("3 bytes"));
  EXPECT_THAT(harness.Weight<float>(key, 1), ElementsAre(1));
}

TEST(ShardOptimizer, IsRefusedWhereAKeyCannotTakeIt) {
  ShardHarness harness(1);
  harness.AddKey(std::vector<int32_t>{1});
  const Status refused = harness.shard.SetOptimizer(Momentum(1), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("int32"));
  harness.Push<int32_t>(0, 0, 1, {5});  // still assigns
  EXPECT_THAT(harness.Weight<int32_t>(0), ElementsAre(5));

  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(2), {}).ok());
  OptimizerConfig unsound = Momentum(-1);
  EXPECT_FALSE(harness.shard.SetOptimizer(unsound, {}).ok());
}

TEST(ShardOptimizer, EachStoreHasItsOwn) {
  ShardHarness harness(1);
  const uint32_t first = harness.AddKey(std::vector<double>{0});
  const uint32_t second = harness.AddKey(std::vector<double>{0}, wire::SyncMode::kSync, 1 << 20, 1);
  const uint32_t whole = harness.AddKey(std::vector<int32_t>{0}, wire::SyncMode::kSync, 1 << 20, 2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(1), {}).ok());
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(10), {}, 1).ok());
  for (uint64_t round = 1; round <= 3; ++round) {
    for (const uint32_t key : {first, second}) harness.Push<double>(0, key, round, {1});
    // A change of the one, also by a config that the other has.
    if (round == 2) {
      ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(10), {{first, 3}}).ok());
    }
  }
  EXPECT_THAT(harness.Weight<double>(first), ElementsAre(12));
  EXPECT_THAT(harness.Weight<double>(second), ElementsAre(30));
  harness.Push<int32_t>(0, whole, 1, {5});  // no optimiser of store 2: it assigns
  EXPECT_THAT(harness.Weight<int32_t>(whole), ElementsAre(5));
}

TEST(ShardOptimizer, AKeyThatItCannotUpdateIsNotTaken) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer(Momentum(1), {}).ok());
  const auto entry = ShardHarness::EntryOf(0, DType::kUInt8, 1, wire::SyncMode::kSync, 64);
  const Status refused = harness.shard.AddKeys({entry});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("uint8"));
}

TEST(ShardOptimizer, AServersOwnUpdaterIsUsedAndNotReplaced) {
  std::vector<uint64_t> rounds;
  std::vector<int> stores;
  ShardHarness harness(
      2, {.updater = [&](const UpdateContext& at, std::span<const float> gradient, std::span<float> weight) {
        rounds.push_back(at.round);
        stores.push_back(at.store);
        EXPECT_EQ(at.samples, 5u);
        for (size_t i = 0; i < weight.size(); ++i) weight[i] = 2 * weight[i] - gradient[i];
      }});
  const uint32_t key = harness.AddKey(std::vector<float>{10, 20}, wire::SyncMode::kSync, 1 << 20, 3);
  for (uint64_t round = 1; round <= 2; ++round) {
    harness.Push<float>(0, key, round, {2, 4}, {.samples = 2, .divisor = 2});
    harness.Push<float>(1, key, round, {4, 8}, {.samples = 3, .divisor = 2});
  }
  EXPECT_THAT(rounds, ElementsAre(1, 2));
  EXPECT_THAT(stores, ElementsAre(3, 3));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(2 * (20 - 3) - 3, 2 * (40 - 6) - 6));
  const Status refused = harness.shard.SetOptimizer(Accumulate(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("function of its own"));
}

TEST(ShardOptimizer, AServersOwnUpdaterServesAsyncKeysWithoutAnOptimiser) {
  ShardHarness harness(
      2, {.updater = [](const UpdateContext&, std::span<const float> gradient, std::span<float> weight) {
        for (size_t i = 0; i < weight.size(); ++i) weight[i] = 2 * weight[i] - gradient[i];
      }});
  const uint32_t key = harness.AddKey(std::vector<float>{10, 20}, wire::SyncMode::kAsync);
  EXPECT_TRUE(OnlyAck(harness.Push<float>(1, key, 1, {2, 4})));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(18, 36));
}

}  // namespace
}  // namespace sluice::testing
