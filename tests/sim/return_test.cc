// A worker's process dies and another one registers with its identity. During the rendezvous the new process
// gets the rank at once. Later, its registration tells the scheduler that the former process is dead, and the
// job fails.
#include <gtest/gtest.h>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

// Register messages are lost, duplicated, late and out of order.
SimClusterOptions Rough(uint64_t seed) {
  SimClusterOptions options;
  options.seed = seed;
  options.identities = true;
  options.faults = {.drop = 0.1, .duplicate = 0.3, .reorder = 0.5, .min_delay = 1ms, .max_delay = 800ms};
  return options;
}

// Runs until the second process of worker 1 has the rank.
bool SuccessorHasThePlace(SimCluster& cluster) {
  return cluster.network().RunUntil(
      [&] {
        return cluster.scheduler().DumpState(cluster.network().now()).find("pid 1001") != std::string::npos;
      },
      cluster.network().now() + 9s);  // before the heartbeat timeout of the former process
}

TEST(SimReturn, DuringTheRendezvousTheNewProcessHasTheRankAndTheJobIsExact) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimClusterOptions options = Rough(seed);
    options.late_workers = 1;
    SimCluster cluster(options);
    // Over the seeds, the process is killed at times from its first message to long after it has joined.
    cluster.network().RunFor(std::chrono::milliseconds(50 * seed));
    cluster.KillWorker(1);
    cluster.StartWorker(1);
    ASSERT_TRUE(SuccessorHasThePlace(cluster)) << "seed " << seed;
    cluster.StartWorker(2);
    const RoundsResult result = RunRounds(cluster, {.rounds = 5});
    ASSERT_TRUE(result.completed) << "seed " << seed << ": " << result.mismatch << result.log;
    EXPECT_EQ(cluster.client(1).session().rank(), 1u);
    EXPECT_EQ(cluster.client(1).session().NumDead(), 0u);
  }
}

TEST(SimReturn, TwoLivingProcessesOfOneIdentityEndWithOneAndTheOtherKnowsWhy) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimClusterOptions options = Rough(seed);
    options.late_workers = 1;
    SimCluster cluster(options);
    cluster.network().RunFor(std::chrono::milliseconds(seed % 3 * 400));
    const worker::Client& first = cluster.client(1);
    cluster.StartWorker(1);
    const worker::Client& second = cluster.client(1);
    cluster.network().RunFor(15s);
    ASSERT_NE(first.session().failure().has_value(), second.session().failure().has_value())
        << "seed " << seed;
    const worker::Client& replaced = first.session().failure() ? first : second;
    EXPECT_NE(replaced.session().failure()->message.find("replaced by worker 1"), std::string::npos)
        << replaced.session().failure()->message;
    EXPECT_EQ(cluster.scheduler().NumDead(), 0u);
  }
}

TEST(SimReturn, ToACompleteJobIsADeathHeardOfLongBeforeTheTimeout) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimClusterOptions options = Rough(seed);
    options.heartbeat_timeout = 60s;
    SimCluster cluster(options);
    ASSERT_TRUE(cluster.Join()) << "seed " << seed;
    cluster.KillWorker(1);
    cluster.StartWorker(1);
    cluster.network().RunFor(20s);
    EXPECT_EQ(cluster.scheduler().NumDead(), 1u) << "seed " << seed;
    for (const uint32_t w : {0u, 1u, 2u}) {
      ASSERT_TRUE(cluster.client(w).session().failure()) << "seed " << seed << ", worker " << w;
      const std::string& why = cluster.client(w).session().failure()->message;
      EXPECT_NE(why.find("worker 1 (host sim, pid 1) is dead: a new process"), std::string::npos) << why;
    }
    for (const uint32_t w : {0u, 2u}) EXPECT_EQ(cluster.client(w).session().NumDead(), 1u);
    for (uint32_t s = 0; s < options.servers; ++s) EXPECT_EQ(cluster.control(s).NumDead(), 1u);
  }
}

// Messages of the former process that arrive after the new one has the rank must have no effect.
TEST(SimReturn, BelatedMessagesOfAFormerProcessDisturbNobody) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimClusterOptions options = Rough(seed);
    options.faults.max_delay = 5s;
    options.late_workers = 1;
    SimCluster cluster(options);
    cluster.network().RunFor(5ms);  // worker 1's Register has been sent
    cluster.KillWorker(1);
    cluster.StartWorker(1);
    ASSERT_TRUE(SuccessorHasThePlace(cluster)) << "seed " << seed;
    cluster.StartWorker(2);
    ASSERT_TRUE(cluster.Join()) << "seed " << seed << cluster.network().LogText();
    cluster.network().RunFor(10s);
    EXPECT_EQ(cluster.scheduler().NumDead(), 0u) << "seed " << seed;
    EXPECT_FALSE(cluster.client(1).session().failure()) << cluster.client(1).session().failure()->message;
  }
}

}  // namespace
}  // namespace sluice::testing
