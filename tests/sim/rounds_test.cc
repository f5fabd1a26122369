// Runs the scripted training of rounds.h with many seeds and many faults, and expects exact values.
// SLUICE_SIM_SEEDS is the number of seeds (default 100; `make soak` runs 1,000), SLUICE_SIM_FIRST_SEED the
// first one: with both, the seed that a failure prints can be replayed.
#include "sim/rounds.h"

#include <gtest/gtest.h>

#include "base/env.h"

namespace sluice::testing {
namespace {

SimClusterOptions Stormy(uint64_t seed) {
  SimClusterOptions options;
  options.seed = seed;
  options.workers = 5;
  options.servers = 3;
  options.part_bytes = 1024;
  options.bigarray_bound = 1000;
  options.heartbeat_timeout = 60s;  // longer than partitions last, so that they do not count as deaths
  options.faults = {.drop = 0.05, .duplicate = 0.05, .reorder = 0.1, .min_delay = 50us, .max_delay = 2ms};
  return options;
}

int64_t Setting(const char* name, int64_t fallback) {
  return Env::FromProcess().GetInt(name, fallback, 0, 1'000'000'000);
}

TEST(SimRounds, AThousandSeedsOfFaultsChangeNoValue) {
  const auto first = static_cast<uint64_t>(Setting("SLUICE_SIM_FIRST_SEED", 1));
  const auto count = static_cast<uint64_t>(Setting("SLUICE_SIM_SEEDS", 100));
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SimClusterOptions storm = Stormy(seed);
    storm.shares_memory = seed % 5 < 3;
    storm.busy = seed % 2 == 1 ? 0.5 : 0;
    SimCluster cluster(storm);
    RoundsOptions options;
    options.push_pull = seed % 2 == 0;
    options.compressed = seed % 3 == 0;
    options.rows = seed % 4 == 0;
    options.batched = !options.compressed && seed % 7 < 4;
    options.in_place = options.push_pull && seed % 5 < 2;
    const RoundsResult result = RunRounds(cluster, options);
    ASSERT_TRUE(result.completed) << "seed " << seed << ": "
                                  << (result.mismatch.empty() ? "hangs" : result.mismatch)
                                  << "\nreplay: SLUICE_SIM_FIRST_SEED=" << seed << " SLUICE_SIM_SEEDS=1\n"
                                  << result.log;
  }
}

TEST(SimRounds, WeightsThatAreSetCountFromOneRoundOn) {
  const auto first = static_cast<uint64_t>(Setting("SLUICE_SIM_FIRST_SEED", 1));
  const auto count = static_cast<uint64_t>(Setting("SLUICE_SIM_SEEDS", 100)) / 2;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SimClusterOptions storm = Stormy(seed);
    storm.shares_memory = seed % 3 == 0;
    storm.busy = seed % 2 == 1 ? 0.5 : 0;
    SimCluster cluster(storm);
    const RoundsResult result = RunRounds(cluster, {.rounds = 60,
                                                    .push_pull = seed % 2 == 0,
                                                    .batched = seed % 5 < 2,
                                                    .sets = 1 + static_cast<int>(seed % 4)});
    ASSERT_TRUE(result.completed) << "seed " << seed << ": "
                                  << (result.mismatch.empty() ? "hangs" : result.mismatch) << "\n"
                                  << result.log;
  }
}

// One worker pushes long after the others. By then the shard has copied their leased gradients.
TEST(SimRounds, MemoryOfWhoWaitsForOthersIsGivenBack) {
  SimClusterOptions options = Stormy(5);
  options.shares_memory = true;
  options.faults = {};
  SimCluster cluster(options);
  ASSERT_TRUE(cluster.Join());
  const auto run = [&](uint32_t worker, auto call) { cluster.OnWorker(worker, call); };
  const auto until = [&](auto done) {
    return cluster.network().RunUntil(done, cluster.network().now() + 10s);
  };
  int ready = 0;
  for (uint32_t w = 0; w < options.workers; ++w) {
    run(w, [&](worker::Client& client, Time now, transport::Network& network) {
      client.Init(
          now, wire::SyncMode::kSync,
          {{{int64_t{0}, DType::kFloat32, Shape({3000})}, Frame::Of(std::make_shared<Buffer>(12'000))}},
          Time::max(), [&](const auto& ids) { ready += ids.ok(); }, network);
    });
  }
  ASSERT_TRUE(until([&] { return ready == 5; }));
  std::vector<std::weak_ptr<Buffer>> gradients(options.workers);
  const auto push = [&](uint32_t w) {
    auto gradient = std::make_shared<Buffer>(12'000);
    for (size_t i = 0; i < 3000; ++i) gradient->as<float>()[i] = static_cast<float>(w + 1);
    gradients[w] = gradient;
    run(w, [gradient](worker::Client& client, Time now, transport::Network& network) {
      client.Submit(now, PushOf(0, Frame::Of(gradient), nullptr), network);
    });
  };
  for (uint32_t w = 0; w < 4; ++w) push(w);
  cluster.network().RunFor(20ms);
  EXPECT_FALSE(gradients[0].expired());  // not copied yet, in case the last push comes soon
  ASSERT_TRUE(until([&] {
    return std::ranges::all_of(gradients, [](const auto& gradient) { return gradient.expired(); });
  }));
  push(4);
  Buffer sum(12'000);
  bool landed = false;
  run(0, [&](worker::Client& client, Time now, transport::Network& network) {
    const auto done = [&](const Status& status) { landed = status.ok(); };
    client.Submit(now, PullOf(0, {sum.bytes(), nullptr}, done), network);
  });
  ASSERT_TRUE(until([&] { return landed; }));
  for (size_t i = 0; i < 3000; ++i) ASSERT_EQ(sum.as<float>()[i], 15);
}

TEST(SimRounds, RowsOfASparseKeyComeThroughAnyStorm) {
  for (uint64_t seed = 2001; seed <= 2015; ++seed) {
    SimCluster cluster(Stormy(seed));
    const RoundsResult result = RunRounds(cluster, {.key_elements = {}, .rows = true});
    ASSERT_TRUE(result.completed) << "seed " << seed << ": "
                                  << (result.mismatch.empty() ? "hangs" : result.mismatch) << "\n"
                                  << result.log;
  }
}

TEST(SimRounds, AsyncPushesAreAllAppliedOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimCluster cluster(Stormy(seed));
    RoundsOptions options;
    options.mode = wire::SyncMode::kAsync;
    options.rounds = 50;
    RoundsResult result = RunRounds(cluster, options);
    ASSERT_TRUE(result.completed) << "seed " << seed << ": "
                                  << (result.mismatch.empty() ? "hangs" : result.mismatch) << "\n"
                                  << result.log;
    // All workers are done, so the weights are the start plus the sum of all updates.
    std::vector<float> weight(2000);
    bool landed = false;
    cluster.OnWorker(0, [&](worker::Client& client, Time now, transport::Network& network) {
      const auto done = [&](const Status& status) { landed = status.ok(); };
      client.Submit(now, PullOf(2, {std::as_writable_bytes(std::span(weight)), nullptr}, done), network);
    });
    ASSERT_TRUE(cluster.network().RunUntil([&] { return landed; }, cluster.network().now() + 60s));
    for (int64_t i = 0; i < 2000; ++i) {
      ASSERT_EQ(weight[static_cast<size_t>(i)], 15 * (50 * 51 / 2 + 50 * (i % 7)))
          << "seed " << seed << " element " << i;
    }
  }
}

TEST(SimRounds, TheSameSeedIsTheSameHistory) {
  RoundsOptions options;
  options.rounds = 20;
  SimCluster a(Stormy(7)), b(Stormy(7)), c(Stormy(8));
  const uint64_t history = RunRounds(a, options).history;
  EXPECT_EQ(history, RunRounds(b, options).history);
  EXPECT_NE(history, RunRounds(c, options).history);
}

TEST(SimRounds, APlantedBugIsFoundAndItsSeedReplaysIt) {
  std::string found;
  uint64_t seed = 0;
  RoundsOptions options;
  options.rounds = 50;
  while (found.empty() && ++seed <= 50) {
    SimClusterOptions planted = Stormy(seed);
    planted.deduplicate = false;
    SimCluster cluster(planted);
    found = RunRounds(cluster, options).mismatch;
  }
  ASSERT_FALSE(found.empty()) << "50 seeds did not find that repeated pushes are summed twice";
  SimClusterOptions planted = Stormy(seed);
  planted.deduplicate = false;
  SimCluster again(planted);
  EXPECT_EQ(RunRounds(again, options).mismatch, found) << "seed " << seed;
  SimCluster mended(Stormy(seed));
  EXPECT_EQ(RunRounds(mended, options).mismatch, "");
}

TEST(SimRounds, SeveralShardsPerServerAndManyParts) {
  SimClusterOptions options = Stormy(3);
  options.shards_per_server = 3;
  options.part_bytes = 256;
  options.codec = 1;
  SimCluster cluster(options);
  const RoundsResult result = RunRounds(cluster, {.rounds = 20, .key_elements = {5000, 64, 65, 1}});
  EXPECT_TRUE(result.completed) << result.mismatch << result.log;
}

// The servers' hosts have 64, 12 and 32 cores and offer 8, 3 and 4 shards; no number is configured.
TEST(SimRounds, ServersOfUnlikeMachinesAgreeOnTheirShards) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimClusterOptions options = Stormy(seed);
    options.offered_shards = {8, 3, 4};
    SimCluster cluster(options);
    const RoundsResult result = RunRounds(cluster, {.rounds = 20, .key_elements = {5000, 64, 65, 1}});
    ASSERT_TRUE(result.completed) << "seed " << seed << ": " << result.mismatch << result.log;
    EXPECT_EQ(cluster.client(0).num_shards(), 9u);
  }
}

// With kLamb a round closes for whole keys, while their parts arrive in any order.
TEST(SimRounds, UpdatesByNormsSurviveFaults) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimClusterOptions storm = Stormy(seed);
    storm.part_bytes = 256;
    storm.bigarray_bound = 1'000'000;
    SimCluster cluster(storm);
    const RoundsResult result = RunRounds(cluster, {.rounds = 20,
                                                    .key_elements = {1, 300, 2000},
                                                    .optimizer = OptimizerKind::kLamb,
                                                    .push_pull = seed % 2 == 0});
    ASSERT_TRUE(result.completed) << "seed " << seed << ": "
                                  << (result.mismatch.empty() ? "hangs" : result.mismatch) << "\n"
                                  << result.log;
  }
}

}  // namespace
}  // namespace sluice::testing
