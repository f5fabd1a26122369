// Rounds: which pushes count, when they close, and what the weight is then.
#include <gmock/gmock.h>

#include "base/rng.h"
#include "tensor/types/half.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardSync, AnyOrderOfArrivalGivesTheSameBits) {
  constexpr uint32_t kWorkers = 5;
  constexpr size_t kElements = 100;
  constexpr uint64_t kRounds = 4;
  Rng values(11);
  std::vector<std::vector<std::vector<float>>> gradient(kRounds);
  for (auto& round : gradient) {
    round.assign(kWorkers, std::vector<float>(kElements));
    for (auto& of_worker : round)
      for (float& g : of_worker)
        g = static_cast<float>(values.Normal() * std::pow(10, values.Uniform(-6, 6)));
  }
  // The last round's sum, in rank order.
  std::vector<float> expected(kElements);
  for (uint32_t w = 0; w < kWorkers; ++w)
    for (size_t i = 0; i < kElements; ++i) expected[i] += gradient[kRounds - 1][w][i];

  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    ShardHarness harness(kWorkers);
    const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, 64);
    // Every push twice, in any order, at any alignment.
    for (const uint64_t pick : rng.Permutation(2 * kWorkers * kRounds)) {
      const uint64_t push = pick / 2, round = push / kWorkers;
      const auto worker = static_cast<uint32_t>(push % kWorkers);
      const auto answers =
          harness.Push(worker, key, round + 1, gradient[round][worker], {.shift = rng.Below(4)});
      ASSERT_TRUE(OnlyAck(answers)) << "seed " << seed;
    }
    ASSERT_THAT(harness.Versions(key), ElementsAre(kRounds, kRounds));
    ASSERT_EQ(harness.Weight<float>(key), expected) << "seed " << seed;
    EXPECT_EQ(harness.Counter("repeats"), 2 * kWorkers * kRounds);  // parts
  }
}

TEST(ShardSync, AWorkerThatPushesTwiceBeforeTheOthersCountsOncePerRound) {
  ShardHarness harness(3);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  harness.Push<float>(0, key, 2, {10});
  harness.Push<float>(1, key, 1, {100});
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  harness.Push<float>(2, key, 1, {1000});
  EXPECT_THAT(harness.Versions(key), ElementsAre(1));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(1101));
  harness.Push<float>(2, key, 2, {1000});
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(1101));
  harness.Push<float>(1, key, 2, {100});
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(2211));
}

TEST(ShardSync, RoundsCloseInOrderHoweverTheyArrive) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  for (const uint64_t round : {3, 2, 1}) harness.Push<float>(0, key, round, {static_cast<float>(round)});
  harness.Push<float>(1, key, 3, {30});
  harness.Push<float>(1, key, 2, {20});
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  harness.Push<float>(1, key, 1, {10});
  EXPECT_THAT(harness.Versions(key), ElementsAre(3));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(33));
}

TEST(ShardSync, BeyondTheWindowIsRefusedUntilTheWindowMoves) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  const uint64_t last = plan::kMaxRoundsAhead;
  EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, last, {7})));
  EXPECT_THAT(ErrorOf(harness.Push<float>(0, key, last + 1, {8})), HasSubstr("rounds ahead"));
  EXPECT_NE(ErrorOf(harness.Push<float>(0, key, UINT64_MAX, {8})), "");
  for (const uint32_t w : {0u, 1u}) harness.Push<float>(w, key, 1, {1});
  EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, last + 1, {8})));
  EXPECT_THAT(harness.Versions(key), ElementsAre(1));
}

TEST(ShardSync, BadPushesChangeNothing) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{5, 5});
  ASSERT_TRUE(
      harness.shard.AddKeys({ShardHarness::EntryOf(1, DType::kFloat32, 2, wire::SyncMode::kSync, 64)}).ok());
  const std::vector<float> good{1, 1};
  EXPECT_THAT(ErrorOf(harness.Push<float>(0, key, 0, good)), HasSubstr("count from 1"));
  EXPECT_THAT(ErrorOf(harness.PushPart<float>(0, {key, 0}, 1, {1})),
              HasSubstr("4 bytes came, the part has 8"));
  EXPECT_THAT(ErrorOf(harness.PushPart<float>(0, {key, 1}, 1, good)), HasSubstr("part 1 of key 0"));
  EXPECT_THAT(ErrorOf(harness.PushPart<float>(0, {9, 0}, 1, good)), HasSubstr("no key with id 9"));
  EXPECT_THAT(ErrorOf(harness.PushPart<float>(0, {1, 0}, 1, good)), HasSubstr("has not been initialised"));
  for (const double divisor : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(ErrorOf(harness.Push<float>(0, key, 1, good, {.divisor = divisor})), HasSubstr("divisor"));
  // A message is good as a whole or not at all.
  const Frame frame = FrameOf(good);
  EXPECT_NE(ErrorOf(harness.Deliver(0, wire::Push{.parts = {{{key, 0}, 1, false}, {{9, 0}, 1, false}}},
                                    {frame, frame})),
            "");
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(5, 5));
  EXPECT_EQ(harness.Counter("rejected"), 10u);
  EXPECT_EQ(harness.Counter("pushes"), 0u);
}

TEST(ShardSync, UnknownSendersAreNotAnsweredAndChangeNothing) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{5});
  for (const wire::Sender& sender : {wire::Sender{wire::Role::kWorker, 0, 999},    // a former life
                                     wire::Sender{wire::Role::kWorker, 1, 1000},   // no such rank
                                     wire::Sender{wire::Role::kServer, 0, 1000}})  // not a worker
  {
    wire::Message message;
    message.sender = sender;
    message.id = 1;
    message.body = wire::Push{.parts = {{{key, 0}, 1, false}}};
    message.payload = {FrameOf(std::vector<float>{1})};
    EXPECT_TRUE(harness.DeliverRaw({7}, std::move(message)).empty());
  }
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  EXPECT_EQ(harness.Counter("messages_of_unknown_senders"), 3u);
}

TEST(ShardSync, MessagesOfOthersAreRefused) {
  ShardHarness harness(1);
  EXPECT_THAT(ErrorOf(harness.Deliver(0, wire::Barrier{.id = "b"})), HasSubstr("Barrier"));
}

TEST(ShardSync, TheDivisorDividesTheSum) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<double>{0});
  harness.Push<double>(0, key, 1, {6}, {.divisor = 4});
  harness.Push<double>(1, key, 1, {4}, {.divisor = 4});
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(2.5));
}

TEST(ShardSync, DivisorsThatDifferAreAnErrorForTheLater) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, 1, {6}, {.divisor = 2})));
  const std::string error = ErrorOf(harness.Push<float>(1, key, 1, {4}, {.divisor = 8}));
  EXPECT_THAT(error, HasSubstr("worker 1 divides by 8"));
  EXPECT_THAT(error, HasSubstr("by 2"));
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  EXPECT_TRUE(OnlyAck(harness.Push<float>(1, key, 1, {4}, {.divisor = 2})));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(5));
}

TEST(ShardSync, SamplesDivideWhenTheOptimiserSaysSo) {
  ShardHarness harness(2);
  OptimizerConfig config = Accumulate();
  config.normalize_by_samples = true;
  ASSERT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
  const uint32_t key = harness.AddKey(std::vector<double>{1});
  // Uneven batches, one of them empty; what the pushes want to be divided by does not matter.
  harness.Push<double>(0, key, 1, {30}, {.samples = 6, .divisor = 6});
  harness.Push<double>(1, key, 1, {10}, {.samples = 2, .divisor = 2});
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(6));
  harness.Push<double>(0, key, 2, {30}, {.samples = 6});
  harness.Push<double>(1, key, 2, {0}, {.samples = 0});
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(11));
  for (const uint32_t w : {0u, 1u}) harness.Push<double>(w, key, 3, {std::nan("")}, {.samples = 0});
  EXPECT_THAT(harness.Versions(key), ElementsAre(3));
  EXPECT_THAT(harness.Weight<double>(key), ElementsAre(11));
}

TEST(ShardSync, EachOfSixteenPartsHasItsOwnRounds) {
  ShardHarness harness(2);
  std::vector<float> gradient(16 * 64);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i);
  const uint32_t key = harness.AddKey(std::vector<float>(gradient.size()), wire::SyncMode::kSync, 64);
  harness.Push(0, key, 1, gradient);
  for (const uint64_t part : Rng(4).Permutation(16)) {
    const std::vector<float> piece(gradient.begin() + static_cast<ptrdiff_t>(part * 64),
                                   gradient.begin() + static_cast<ptrdiff_t>(part * 64 + 64));
    EXPECT_EQ(harness.Versions(key)[part], 0u);
    harness.PushPart(1, {key, static_cast<uint32_t>(part)}, 1, piece);
    EXPECT_EQ(harness.Versions(key)[part], 1u);
  }
  std::vector<float> twice = gradient;
  for (float& g : twice) g *= 2;
  EXPECT_EQ(harness.Weight<float>(key), twice);
  EXPECT_EQ(harness.Counter("rounds_closed"), 16u);
}

TEST(ShardSync, HalvesAreExactWhereTheTypeIs) {
  ShardHarness harness(3);
  const auto halves = [](float v) { return std::vector<Half>(70, HalfFromFloat(v)); };
  const uint32_t key = harness.AddKey(halves(0));
  harness.Push(0, key, 1, halves(2048), {.shift = 1});
  harness.Push(1, key, 1, halves(1), {.shift = 1});
  harness.Push(2, key, 1, halves(1), {.shift = 1});  // 2048 + 1 is 2048 in 16 bits
  for (const Half w : harness.Weight<Half>(key)) ASSERT_EQ(ToFloat(w), 2050.0f);
}

TEST(ShardSync, WholeNumberKeysAssignAndAccumulate) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<int64_t>{1, 2});
  for (const uint32_t w : {0u, 1u})
    harness.Push<int64_t>(w, key, 1, {(int64_t{1} << 53) + 1, -4}, {.shift = 3});
  EXPECT_THAT(harness.Weight<int64_t>(key), ElementsAre((int64_t{1} << 54) + 2, -8));
  EXPECT_THAT(ErrorOf(harness.Push<int64_t>(0, key, 2, {1, 1}, {.divisor = 2})), HasSubstr("int64"));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(3), {{key, 2}}).ok());
  for (const uint32_t w : {0u, 1u}) harness.Push<int64_t>(w, key, 2, {1, 1});
  EXPECT_THAT(harness.Weight<int64_t>(key), ElementsAre((int64_t{1} << 54) + 8, -2));
}

TEST(ShardSync, ASmallerMembershipClosesTheRoundThatWaited) {
  ShardHarness harness(3);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  const auto waiting = harness.Push<float>(2, key, 1, {100}, {.want_value = true});
  EXPECT_TRUE(OnlyAck(waiting));
  harness.roster[1].state = wire::NodeState::kDead;
  harness.SetMembership(2);
  const auto values = harness.network.Take<wire::Values>(ShardHarness::PeerOf(2));
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(values[0].parts[0].version, 1u);
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(101));
  EXPECT_TRUE(harness.Push<float>(1, key, 2, {10}).empty());  // the dead are unknown senders
}

TEST(ShardSync, AFinishedWorkerIsNotWaitedForAndMayStillPull) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.roster[1].state = wire::NodeState::kFinished;
  harness.SetMembership(2);
  harness.Push<float>(0, key, 1, {3});
  EXPECT_THAT(harness.Join<float>(harness.Pull(1, key, 1)), ElementsAre(3));
}

TEST(ShardSync, ARestartedWorkersFormerLifeIsFenced) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.roster[0].incarnation = 77;
  harness.SetMembership(2);
  EXPECT_TRUE(harness.Push<float>(0, key, 1, {1}).empty());  // still the incarnation of before
}

TEST(ShardSync, TheStateDumpSaysWhoIsMissing) {
  ShardHarness harness(3);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(1, key, 1, {1}, {.want_value = true});
  const std::string text = harness.shard.DumpState(Time{});
  EXPECT_THAT(text, HasSubstr("round 1 waits for worker 0, worker 2"));
  EXPECT_THAT(text, HasSubstr("worker 1 waits for round 1"));
}

TEST(ShardSync, AGreetingNeedsNoAnswerWhoeverSendsIt) {
  ShardHarness harness(1);
  EXPECT_TRUE(harness.Deliver(0, wire::Heartbeat{}).empty());
  EXPECT_TRUE(harness.Deliver(7, wire::Heartbeat{}).empty());
  const auto counters = harness.Deliver(0, wire::GetStats{}).at(0).As<wire::Stats>().counters;
  EXPECT_FALSE(counters.contains("messages_of_unknown_senders"));
}

TEST(ShardSync, CountersAreToldOnRequest) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{0, 0});
  harness.Push<float>(0, key, 1, {1, 1});
  harness.Push<float>(0, key, 1, {1, 1});
  harness.Weight<float>(key);
  const auto answers = harness.Deliver(0, wire::GetStats{});
  ASSERT_EQ(answers.size(), 1u);
  auto counters = answers[0].As<wire::Stats>().counters;
  EXPECT_EQ(counters["rounds_closed"], 1u);
  EXPECT_EQ(counters["pushes"], 1u);
  EXPECT_EQ(counters["repeats"], 1u);
  EXPECT_EQ(counters["bytes_in"], 16u);
  EXPECT_EQ(counters["bytes_out"], 8u);
}

// Sums of a worker's devices, each of which is halved as often as it takes to be a float16 number.
TEST(ShardSync, Float16PushesAreMultipliedByTheirOwnPowersOfTwo) {
  ShardHarness harness(2);
  const uint32_t halves = harness.AddKey(std::vector<Half>(2, HalfFromFloat(0)));
  const uint32_t floats = harness.AddKey(std::vector<float>{0});
  const auto push = [&](uint32_t worker, uint32_t exponent, Compression compression = Compression::kNone) {
    return harness.Deliver(worker,
                           wire::Push{.samples = 1,
                                      .divisor = 8,
                                      .parts = {{{halves, 0}, 1, false}},
                                      .compression = compression,
                                      .exponent = exponent},
                           {FrameOf(std::vector<Half>{HalfFromFloat(30000), HalfFromFloat(-3)})});
  };
  EXPECT_THAT(ErrorOf(push(0, wire::kMostExponent + 1)), HasSubstr("the exponent of a float16 gradient"));
  EXPECT_THAT(
      ErrorOf(harness.Deliver(
          0, wire::Push{.samples = 1, .divisor = 1, .parts = {{{floats, 0}, 1, false}}, .exponent = 1},
          {FrameOf(std::vector<float>{1})})),
      HasSubstr("the exponent of a float32 gradient as none is 1"));
  EXPECT_TRUE(OnlyAck(push(0, 2)));
  EXPECT_TRUE(OnlyAck(push(1, 0)));
  const auto weight = harness.Weight<Half>(halves);
  EXPECT_EQ(ToFloat(weight[0]), ToFloat(HalfFromFloat(5 * 30000.0f / 8)));
  EXPECT_EQ(ToFloat(weight[1]), -15.0f / 8);
}

}  // namespace
}  // namespace sluice::testing
