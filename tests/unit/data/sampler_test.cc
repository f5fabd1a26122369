#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
    sizes.push_back(ShareOfStep(config, 1, {rank, workers}).size());
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
      const Interval all = GlobalStep(config, step, workers);
      EXPECT_EQ(all.begin, at);
      for (int64_t rank = 0; rank < workers; ++rank) {
        const Interval share = ShareOfStep(config, step, {rank, workers});
        EXPECT_EQ(share.begin, at);
        EXPECT_GE(share.size(), 0);
        if (step + 1 < steps) {
          EXPECT_EQ(share.size(), config.batch_size);
        }
        at = share.end;
      }
      EXPECT_EQ(all.end, at);
      EXPECT_EQ(all, GlobalStep({config.num_samples, global}, step, 1))
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

TEST(Sampler, WhatIsOutOfRangeIsRefused) {
  const SamplerConfig good{.num_samples = 10, .batch_size = 4};
  EXPECT_THROW(StepsPerEpoch({.num_samples = 0, .batch_size = 4}, 1), Error);
  EXPECT_THROW(StepsPerEpoch({.num_samples = 10, .batch_size = 0}, 1), Error);
  EXPECT_THROW(StepsPerEpoch(good, 0), Error);
  EXPECT_THROW(ShareOfStep(good, 3, {0, 1}), Error);
  EXPECT_THROW(ShareOfStep(good, 0, {1, 1}), Error);
  EXPECT_EQ(StepsPerEpoch({.num_samples = 10, .batch_size = INT64_MAX}, 4), 1) << "no overflow";
}

}  // namespace
}  // namespace sluice
