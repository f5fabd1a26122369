// Rounds of many workers: pushes are added up as they come, and kept no longer.
#include <gmock/gmock.h>

#include <cmath>

#include "base/rng.h"
#include "compression/codec.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kMany = server::kMostKept + 8;

std::vector<std::vector<float>> OfAllSizes(Rng& rng, size_t count, size_t elements) {
  std::vector<std::vector<float>> gradients(count, std::vector<float>(elements));
  for (auto& one : gradients)
    for (float& g : one) g = static_cast<float>(rng.Normal() * std::pow(10, rng.Uniform(-6, 6)));
  return gradients;
}

// Frames that are still held by somebody.
class Held {
 public:
  Frame LeasedFrame(const std::vector<float>& values) {
    const auto buffer = std::make_shared<Buffer>(values.size() * sizeof(float));
    std::memcpy(buffer->data(), values.data(), buffer->size());
    buffers_.push_back(buffer);
    return Frame::Of(buffer);
  }
  size_t count() const {
    return static_cast<size_t>(std::count_if(buffers_.begin(), buffers_.end(),
                                             [](const auto& buffer) { return !buffer.expired(); }));
  }

 private:
  std::vector<std::weak_ptr<const Buffer>> buffers_;
};

TEST(ShardMany, AnyOrderOfArrivalGivesTheSameBits) {
  constexpr size_t kElements = 100, kRounds = 3;
  Rng values(5);
  const auto gradients = OfAllSizes(values, kMany * kRounds, kElements);
  std::vector<float> expected;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    ShardHarness harness(kMany);
    ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
    const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, 64);
    for (const uint64_t pick : rng.Permutation(2 * kMany * kRounds)) {  // every push twice
      const uint64_t push = pick / 2, round = push / kMany;
      ASSERT_TRUE(OnlyAck(harness.Push(static_cast<uint32_t>(push % kMany), key, round + 1, gradients[push],
                                       {.shift = rng.Below(4)})));
    }
    ASSERT_THAT(harness.Versions(key), ElementsAre(kRounds, kRounds));
    const auto weight = harness.Weight<float>(key);
    if (seed == 1) expected = weight;
    ASSERT_EQ(weight, expected) << "seed " << seed;
  }
  // Three roundings to float32, one a round.
  std::vector<double> sum(kElements), largest(kElements);
  for (size_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < kElements; ++i) {
      for (uint32_t w = 0; w < kMany; ++w) sum[i] += gradients[round * kMany + w][i];
      largest[i] = std::max(largest[i], std::abs(sum[i]));
    }
  for (size_t i = 0; i < kElements; ++i) EXPECT_NEAR(expected[i], sum[i], 6 * largest[i] * 0x1p-24) << i;
}

TEST(ShardMany, WhatIsKeptDoesNotGrowWithTheWorkers) {
  constexpr uint32_t kWorkers = 500;
  ShardHarness harness(kWorkers);
  const uint32_t key = harness.AddKey(std::vector<float>(10));
  Held held;
  Rng rng(6);
  size_t most = 0;
  for (const uint64_t worker : rng.Permutation(kWorkers - 1)) {  // the last one is late
    for (const uint64_t round : {1, 2})
      harness.Deliver(static_cast<uint32_t>(worker), wire::Push{.parts = {{{key, 0}, round, false}}},
                      {held.LeasedFrame(std::vector<float>(10, 1))});
    most = std::max(most, held.count());
  }
  EXPECT_LE(most, 2 * server::kMostKept);
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  harness.Push(kWorkers - 1, key, 1, std::vector<float>(10, 0.5f));
  EXPECT_THAT(harness.Weight<float>(key), Each(499.5f));
  harness.Push(kWorkers - 1, key, 2, std::vector<float>(10, 1));
  EXPECT_THAT(harness.Weight<float>(key), Each(500));
  EXPECT_EQ(held.count(), 0u);
}

TEST(ShardMany, FewAreKeptAndSummedInRankOrder) {
  ShardHarness harness(server::kMostKept);
  const uint32_t key = harness.AddKey(std::vector<float>(50));
  Rng rng(7);
  const auto gradients = OfAllSizes(rng, server::kMostKept, 50);
  std::vector<float> expected(50);
  for (const auto& one : gradients)
    for (size_t i = 0; i < 50; ++i) expected[i] += one[i];
  for (const uint64_t worker : rng.Permutation(server::kMostKept))
    harness.Push(static_cast<uint32_t>(worker), key, 1, gradients[worker]);
  EXPECT_EQ(harness.Weight<float>(key), expected);
}

TEST(ShardMany, WhoHasPushedAndWhatDividesIsStillKnown) {
  ShardHarness harness(kMany);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  for (uint32_t w = 0; w + 1 < kMany; ++w) harness.Push<float>(w, key, 1, {8}, {.divisor = 4});
  harness.Push<float>(3, key, 1, {1000}, {.divisor = 4});  // a repeat
  EXPECT_EQ(harness.Counter("repeats"), 1u);
  EXPECT_THAT(ErrorOf(harness.Push<float>(kMany - 1, key, 1, {8}, {.divisor = 5})),
              HasSubstr("divides by 5"));
  harness.Pull(0, key, 1);
  const auto words = harness.RunFor(200ms);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].As<wire::StillWaiting>().missing, "worker " + std::to_string(kMany - 1));
  harness.Push<float>(kMany - 1, key, 1, {8}, {.divisor = 4});
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(2.0f * kMany));
}

TEST(ShardMany, TheDeathOfTheLastClosesTheRoundWithAllThatCame) {
  ShardHarness harness(kMany);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  for (uint32_t w = 0; w + 1 < kMany; ++w) harness.Push<float>(w, key, 1, {1});
  harness.roster.back().state = wire::NodeState::kDead;
  harness.SetMembership(2);
  EXPECT_THAT(harness.Versions(key), ElementsAre(1));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(kMany - 1.0f));
}

TEST(ShardMany, SamplesDivideAndOptimisersSeeTheSum) {
  ShardHarness harness(kMany);
  OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .learning_rate = 0.5, .normalize_by_samples = true};
  ASSERT_TRUE(harness.shard.SetOptimizer(sgd, {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(3, 1));
  for (uint32_t w = 0; w < kMany; ++w)
    harness.Push<float>(w, key, 1, std::vector<float>(3, static_cast<float>(w)), {.samples = 2});
  // The mean gradient is (kMany - 1) / 4.
  EXPECT_THAT(harness.Weight<float>(key), Each(1 - 0.5f * (kMany - 1) / 4.0f));
}

TEST(ShardMany, NormsAreOfTheSum) {
  const auto run = [](uint32_t workers) {
    ShardHarness harness(workers);
    OptimizerConfig lamb{.kind = OptimizerKind::kLamb, .learning_rate = 0.1};
    EXPECT_TRUE(harness.shard.SetOptimizer(lamb, {}).ok());
    const uint32_t key = harness.AddKey(std::vector<float>{1, 2, 3, 4}, wire::SyncMode::kSync, 2);
    for (uint32_t w = 0; w < workers; ++w) {
      const float g = 64.0f / static_cast<float>(workers);
      harness.Push<float>(w, key, 1, {g, -g, 2 * g, g});
    }
    return harness.Weight<float>(key);
  };
  EXPECT_EQ(run(64), run(2));
}

TEST(ShardMany, CompressedPushesAreAddedUpToo) {
  ShardHarness harness(kMany);
  const uint32_t key = harness.AddKey(std::vector<float>(40));
  const std::vector<float> gradient(40, 0.75f);
  const GradientCompression how{.type = Compression::k2Bit, .threshold = 0.5f};
  for (uint32_t w = 0; w < kMany; ++w) {
    const auto encoded =
        std::make_shared<Buffer>(compression::EncodedBytes(how, DType::kFloat32, gradient.size()));
    std::vector<float> residual(gradient.size());
    compression::Encode(how, DType::kFloat32, reinterpret_cast<const std::byte*>(gradient.data()),
                        gradient.size(), residual.data(), encoded->data());
    harness.Deliver(w, wire::Push{.parts = {{{key, 0}, 1, false}}, .compression = how.type},
                    {Frame::Of(encoded)});
  }
  EXPECT_THAT(harness.Weight<float>(key), Each(0.5f * kMany));
}

}  // namespace
}  // namespace sluice::testing
