// Very large simulated jobs: the cost of a round for each process must not grow with the number of processes.
#include <gtest/gtest.h>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

// With kSlicedOverAll as the bound, the first key is sliced over all servers; the others are on
// one server each.
const std::vector<int64_t> kScaleKeys = {100'000, 100, 200};
constexpr int64_t kSlicedOverAll = 100'000;

// Returns the number of messages of a whole job that trains `rounds` rounds and checks all values.
uint64_t Messages(uint32_t workers, uint32_t servers, int rounds,
                  std::optional<int64_t> bigarray_bound = kSlicedOverAll) {
  SimClusterOptions options;
  options.workers = workers;
  options.servers = servers;
  options.bigarray_bound = bigarray_bound;
  options.heartbeat_timeout = 60s;
  options.codec = 0.001;
  SimCluster cluster(options);
  const RoundsResult result =
      RunRounds(cluster, {.rounds = rounds, .key_elements = kScaleKeys, .cut_chance = 0});
  EXPECT_TRUE(result.completed) << result.mismatch << result.log;
  EXPECT_EQ(cluster.network().counters().dropped, 0u);
  return cluster.network().counters().sent;
}

// A worker exchanges three messages with each server that has a part: push, ack and value; for the last
// worker to push, the value is also the ack.
TEST(SimScale, ARoundCostsAWorkerThreeMessagesAServerHoweverManyWorkersThereAre) {
  const auto of_a_round = [](uint32_t workers, uint32_t servers) {
    return static_cast<double>(Messages(workers, servers, 3) - Messages(workers, servers, 1)) / 2 / workers;
  };
  for (const uint32_t servers : {5, 20}) {
    const double few = of_a_round(10, servers), many = of_a_round(80, servers);
    EXPECT_NEAR(many / few, 1, 0.05) << servers;
    EXPECT_LE(many, 3 * (servers + 2)) << servers;
    EXPECT_GE(many, 2 * servers) << servers;
  }
}

// A key of 400 KB has slices of at least 32 KiB, however many servers there are.
TEST(SimScale, ByDefaultAKeyCostsNoMoreThanItsSlices) {
  for (const uint32_t servers : {40, 80}) {
    const auto rounds = [&](int n) { return static_cast<double>(Messages(10, servers, n, std::nullopt)); };
    const double of_a_round = (rounds(3) - rounds(1)) / 2 / 10;
    EXPECT_LE(of_a_round, 3 * (13 + 2)) << servers;
    EXPECT_GE(of_a_round, 2 * 13) << servers;
  }
}

// The bound includes joining, keys, barrier and optimiser, for which a worker exchanges a few
// messages with each server.
TEST(SimScale, AThousandWorkersAndAHundredServers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const uint32_t workers = 200, servers = 40;
#else
  const uint32_t workers = 1000, servers = 100;
#endif
  constexpr uint64_t kStart = 8, kRounds = 2, kSlices = 13;
  EXPECT_LE(Messages(workers, servers, kRounds), workers * (servers + 2) * (kStart + 3 * kRounds));
  EXPECT_LE(Messages(200, 40, kRounds, std::nullopt),
            200 * ((40 + 2) * kStart + (kSlices + 2) * 3 * kRounds));
}

}  // namespace
}  // namespace sluice::testing
