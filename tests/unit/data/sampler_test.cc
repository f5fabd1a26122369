// Tests sluice/sampler.h: the order of an epoch's samples and each worker's share of them. Shares are
// compared with the splitting rule written out, frequencies with their expectation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "sluice/data.h"
#include "sluice/error.h"

namespace sluice {
namespace {

std::vector<int64_t> SharesOf(int64_t batch, int64_t workers) {
  // The last global batch of an epoch, preceded by one full one.
  const SamplerConfig config{.num_samples = 100 * workers + batch, .batch_size = 100};
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < workers; ++rank)
    sizes.push_back(ShareOfStep(config, {0, 1}, {rank, workers}).size());
  return sizes;
}

TEST(Sampler, TailsAreSharedAsTheSplittingRuleSays) {
  EXPECT_EQ(SharesOf(10, 3), (std::vector<int64_t>{3, 3, 4}));
  EXPECT_EQ(SharesOf(8, 3), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(SharesOf(5, 2), (std::vector<int64_t>{2, 3}));  // 2.5 rounds to 2
  EXPECT_EQ(SharesOf(7, 2), (std::vector<int64_t>{4, 3}));  // 3.5 rounds to 4
  EXPECT_EQ(SharesOf(2, 3), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(SharesOf(1, 4), (std::vector<int64_t>{0, 0, 0, 1}));
  EXPECT_EQ(SharesOf(3, 4), (std::vector<int64_t>{1, 1, 1, 0}));
}

TEST(Sampler, SharesLieEndToEndAndStepsCoverTheEpoch) {
  Rng rng(7);
  for (int round = 0; round < 500; ++round) {
    const SamplerConfig config{.num_samples = static_cast<int64_t>(1 + rng.Below(300)),
                               .batch_size = static_cast<int64_t>(1 + rng.Below(40))};
    const auto workers = static_cast<int64_t>(1 + rng.Below(9));
    const int64_t steps = StepsPerEpoch(config, workers);
    const int64_t global = config.batch_size * workers;
    EXPECT_EQ(steps, (config.num_samples + global - 1) / global);
    int64_t at = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const Interval all = GlobalStep(config, {0, step}, workers);
      EXPECT_EQ(all.begin, at);
      for (int64_t rank = 0; rank < workers; ++rank) {
        const Interval share = ShareOfStep(config, {0, step}, {rank, workers});
        EXPECT_EQ(share.begin, at);
        EXPECT_GE(share.size(), 0);
        if (step + 1 < steps) {
          EXPECT_EQ(share.size(), config.batch_size);
        }
        at = share.end;
      }
      EXPECT_EQ(all.end, at);
      EXPECT_EQ(all, GlobalStep({config.num_samples, global}, {0, step}, 1))
          << "one process with the global batch";
    }
    EXPECT_EQ(at, config.num_samples);
  }
}

TEST(Sampler, AnEpochsOrderIsAPermutationOfItsOwn) {
  SamplerConfig config{.num_samples = 1000, .batch_size = 10, .seed = 5};
  const auto first = EpochOrder(config, 0);
  EXPECT_EQ(first, EpochOrder(config, 0));
  EXPECT_NE(first, EpochOrder(config, 1));
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), uint64_t{0});
  EXPECT_EQ(sorted, identity);
  EXPECT_NE(first, identity);
  config.batch_size = 3;
  EXPECT_EQ(first, EpochOrder(config, 0)) << "the order must not depend on how it is cut";
  config.seed = 6;
  EXPECT_NE(first, EpochOrder(config, 0));
  config.shuffle = false;
  EXPECT_EQ(EpochOrder(config, 3), identity);
}

TEST(Sampler, EveryPlaceIsEquallyLikely) {
  constexpr int kSamples = 8, kEpochs = 8000;
  std::array<std::array<int, kSamples>, kSamples> seen{};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = EpochOrder({.num_samples = kSamples, .batch_size = 1, .seed = 11}, epoch);
    for (size_t i = 0; i < kSamples; ++i) ++seen[i][order[i]];
  }
  double chi_squared = 0;
  for (const auto& row : seen) {
    for (const int count : row) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi_squared, 94.0);  // 49 degrees of freedom: 0.01 % of fair orders exceed it
}

SamplerConfig RandomConfig(Rng* rng, LastBatch last_batch) {
  return {.num_samples = static_cast<int64_t>(1 + rng->Below(120)),
          .batch_size = static_cast<int64_t>(1 + rng->Below(20)),
          .seed = rng->Next(),
          .last_batch = last_batch};
}

TEST(Sampler, DiscardLeavesOutWhatFillsNoBatch) {
  const SamplerConfig config{.num_samples = 10, .batch_size = 2, .last_batch = LastBatch::kDiscard};
  EXPECT_EQ(StepsPerEpoch(config, 2), 2);
  EXPECT_EQ(GlobalStep(config, {7, 1}, 2), (Interval{4, 8}));
  EXPECT_THROW(GlobalStep(config, {0, 2}, 2), Error);
  EXPECT_EQ(StepsPerEpoch(config, 5), 1);
  EXPECT_EQ(StepsPerEpoch(config, 6), 1) << "a batch larger than the set is the set";
}

// 10 samples in batches of 4: |0 1 2 3|4 5 6 7|8 9 0' 1'|2' 3' 4' 5'|6' 7' 8' 9'|
TEST(Sampler, RolloverBeginsTheNextEpochWithWhatIsLeft) {
  const SamplerConfig config{.num_samples = 10, .batch_size = 2, .last_batch = LastBatch::kRollover};
  EXPECT_EQ(StepsPerEpoch(config, 2, 0), 2);
  EXPECT_EQ(StepsPerEpoch(config, 2, 1), 3);
  EXPECT_EQ(StepsPerEpoch(config, 2, 2), 2);
  EXPECT_EQ(GlobalStep(config, {0, 1}, 2), (Interval{4, 8}));
  EXPECT_EQ(GlobalStep(config, {1, 0}, 2), (Interval{-2, 2}));
  EXPECT_EQ(GlobalStep(config, {1, 2}, 2), (Interval{6, 10}));
  EXPECT_EQ(GlobalStep(config, {2, 0}, 2), (Interval{0, 4}));
  EXPECT_EQ(ShareOfStep(config, {1, 0}, {0, 2}), (Interval{-2, 0}));
  EXPECT_EQ(ShareOfStep(config, {1, 0}, {1, 2}), (Interval{0, 2}));
  EXPECT_THROW(GlobalStep(config, {0, 2}, 2), Error);
  EXPECT_THROW(GlobalStep(config, {-1, 0}, 2), Error);
}

TEST(Sampler, RolloverCountsAsFarAsNumbersGo) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const SamplerConfig config{.num_samples = kMost, .batch_size = 4, .last_batch = LastBatch::kRollover};
  EXPECT_EQ(StepsPerEpoch(config, 1, 0), kMost / 4);      // 3 are left over
  EXPECT_EQ(StepsPerEpoch(config, 1, 1), kMost / 4 + 1);  // 3 + 3 are one more batch
}

TEST(Sampler, RolloverCutsAllOrdersEveryBSamples) {
  Rng rng(21);
  for (int round = 0; round < 200; ++round) {
    const SamplerConfig config = RandomConfig(&rng, LastBatch::kRollover);
    const auto workers = static_cast<int64_t>(1 + rng.Below(5));
    const int64_t global = std::min(config.batch_size * workers, config.num_samples);
    int64_t at = 0;  // in all the orders, end to end
    for (int64_t epoch = 0; epoch < 12; ++epoch) {
      const int64_t steps = StepsPerEpoch(config, workers, epoch);
      ASSERT_GE(steps, 1);
      for (int64_t step = 0; step < steps; ++step) {
        const Interval all = GlobalStep(config, {epoch, step}, workers);
        ASSERT_EQ(epoch * config.num_samples + all.begin, at);
        ASSERT_EQ(all.size(), global);
        ASSERT_GT(all.end, 0) << "a batch of the epoch before";
        ASSERT_LE(all.end, config.num_samples);
        at += global;
      }
      ASSERT_LT((epoch + 1) * config.num_samples - at, global) << "a full batch is left over";
    }
  }
}

TEST(Sampler, PositionAfterCountsStepsOverEpochs) {
  Rng rng(22);
  for (const LastBatch policy : {LastBatch::kKeep, LastBatch::kDiscard, LastBatch::kRollover}) {
    for (int round = 0; round < 60; ++round) {
      const SamplerConfig config = RandomConfig(&rng, policy);
      const auto workers = static_cast<int64_t>(1 + rng.Below(5));
      std::vector<Position> walked;
      for (int64_t epoch = 0; epoch < 8; ++epoch) {
        for (int64_t step = 0; step < StepsPerEpoch(config, workers, epoch); ++step)
          walked.push_back({epoch, step});
      }
      const size_t from = rng.Below(walked.size());
      for (size_t to = from; to < walked.size(); ++to)
        ASSERT_EQ(PositionAfter(config, walked[from], to - from, workers), walked[to]);
    }
  }
  // Late epochs of large sets: products beyond 64 bits.
  const SamplerConfig large{
      .num_samples = int64_t{1} << 40, .batch_size = 7, .last_batch = LastBatch::kRollover};
  const Position late{int64_t{1} << 40, 5};
  EXPECT_EQ(PositionAfter(large, late, 1, 1), (Position{int64_t{1} << 40, 6}));
  EXPECT_LT(-GlobalStep(large, {late.epoch, 0}, 1).begin, 7);
}

std::vector<int32_t> LabelsOf(size_t size, size_t classes) {
  std::vector<int32_t> labels;
  for (size_t i = 0; i < size; ++i) labels.push_back(static_cast<int32_t>(i % classes));
  return labels;
}

TEST(Sampler, WeightedOrdersDrawClassesByTheirWeights) {
  // Class 0 has 1 sample, class 1 has 3, class 2 has 6, class 3 has 2: weights times sizes are 4, 6, 0, 10.
  const std::vector<int32_t> labels{0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3};
  const std::vector<double> weights{4, 2, 0, 5};
  std::array<double, 12> counts{};
  constexpr int kEpochs = 5000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order =
        WeightedEpochOrder({.num_samples = 12, .batch_size = 1, .seed = 3}, epoch, labels, weights);
    ASSERT_EQ(order.size(), 12u);
    for (const uint64_t sample : order) ++counts[sample];
  }
  double chi_squared = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double expected = kEpochs * 12 * weights[static_cast<size_t>(labels[i])] / 20;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0);
    } else {
      chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  EXPECT_LT(chi_squared, 24.0);  // 5 degrees of freedom: 0.02 % of fair draws exceed it
}

TEST(Sampler, AWeightedOrderIsAFunctionOfSeedAndEpoch) {
  SamplerConfig config{.num_samples = 60, .batch_size = 4, .seed = 8};
  const auto labels = LabelsOf(60, 3);
  const std::vector<double> weights{1, 2, 3};
  const auto order = WeightedEpochOrder(config, 2, labels, weights);
  EXPECT_EQ(order, WeightedEpochOrder(config, 2, labels, weights));
  EXPECT_NE(order, WeightedEpochOrder(config, 3, labels, weights));
  config.batch_size = 9;
  EXPECT_EQ(order, WeightedEpochOrder(config, 2, labels, weights));
  config.seed = 9;
  EXPECT_NE(order, WeightedEpochOrder(config, 2, labels, weights));
}

TEST(Sampler, WeightsThatWillNotDoAreRefused) {
  const auto order = [](std::vector<double> weights) {
    return WeightedEpochOrder({.num_samples = 6, .batch_size = 2}, 0, LabelsOf(6, 3), weights);
  };
  EXPECT_THROW(order({1, 1}), Error);
  EXPECT_THROW(order({}), Error);
  EXPECT_THROW(order({1, -1, 1}), Error);
  EXPECT_THROW(order({1, NAN, 1}), Error);
  EXPECT_THROW(order({1, INFINITY, 1}), Error);
  EXPECT_THROW(order({0, 0, 0}), Error);
  EXPECT_NO_THROW(order({0, 0, 1e-300}));
}

TEST(Sampler, WhatIsOutOfRangeIsRefused) {
  const SamplerConfig good{.num_samples = 10, .batch_size = 4};
  EXPECT_THROW(StepsPerEpoch({.num_samples = 0, .batch_size = 4}, 1), Error);
  EXPECT_THROW(StepsPerEpoch({.num_samples = 10, .batch_size = 0}, 1), Error);
  EXPECT_THROW(StepsPerEpoch(good, 0), Error);
  EXPECT_THROW(ShareOfStep(good, {0, 3}, {0, 1}), Error);
  EXPECT_THROW(ShareOfStep(good, {0, 0}, {1, 1}), Error);
  EXPECT_EQ(StepsPerEpoch({.num_samples = 10, .batch_size = INT64_MAX}, 4), 1) << "no overflow";
}

}  // namespace
}  // namespace sluice
