// Measures how long a round takes on links with limited bandwidth, with real clients and shards in virtual
// time, and compares it with the closed form of docs/design/scale.md. The machines themselves take no virtual
// time, so only the network terms of that formula are checked.
#include <gtest/gtest.h>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

constexpr double kRate = 1.25e9;  // bytes per second each way: 10 Gbit/s
constexpr Duration kDelay = 20us;
// A model of 4 MiB with several keys, each of which is sliced over all servers.
constexpr int kRoundKeys = 8;
constexpr int64_t kKeyElements = 1 << 17;
constexpr double kKeyBytes = kKeyElements * sizeof(float), kModelBytes = kRoundKeys * kKeyBytes;
constexpr double kLeastPart = 128 << 10;  // plan::PlacementOptions::least_part_bytes

struct Job {
  uint32_t workers, servers;
  bool colocated = false;
  // With 1, every key is sliced over all servers; nullopt stands for the default placement.
  std::optional<int64_t> bigarray_bound = 1;
};

SimClusterOptions OptionsOf(const Job& job) {
  SimClusterOptions options;
  options.workers = job.workers;
  options.servers = job.servers;
  options.colocated = job.colocated;
  options.bigarray_bound = job.bigarray_bound;
  options.link = {.transmit_rate = kRate, .receive_rate = kRate};
  options.faults = {.min_delay = kDelay, .max_delay = kDelay};
  options.codec = 0;
  options.resend_timeout = options.heartbeat_timeout = 600s;
  return options;
}

// Returns the virtual seconds until all workers have done `rounds` rounds, joining and
// initialisation included.
double SecondsOf(const Job& job, int rounds, const std::vector<int64_t>& keys) {
  SimCluster cluster(OptionsOf(job));
  const Time begin = cluster.network().now();
  const RoundsResult result = RunRounds(cluster, {.rounds = rounds, .key_elements = keys, .cut_chance = 0});
  EXPECT_TRUE(result.completed) << result.mismatch << result.log;
  return ToSeconds(cluster.network().now() - begin);
}

double RoundSeconds(const Job& job,
                    const std::vector<int64_t>& keys = std::vector<int64_t>(kRoundKeys, kKeyElements)) {
  return (SecondsOf(job, 3, keys) - SecondsOf(job, 1, keys)) / 2;
}

// Returns the predicted seconds of a round: the time of the busiest link in one direction, plus
// the delay there and back. With separate hosts, plus the time of the last part, whose values are
// sent after its last push.
double Predicted(const Job& job) {
  const double workers = job.workers, servers = job.servers, delays = 2 * ToSeconds(kDelay);
  if (job.colocated) return 2 * kModelBytes * (1 - 1 / workers) / kRate + delays;
  const double part = std::min(kKeyBytes / servers, kLeastPart);
  return (kModelBytes * std::max(1.0, workers / servers) + workers * part) / kRate + delays;
}

// Returns the simulated time divided by the predicted time.
double RatioOf(const Job& job,
               const std::vector<int64_t>& keys = std::vector<int64_t>(kRoundKeys, kKeyElements)) {
  const double ratio = RoundSeconds(job, keys) / Predicted(job);
  ::testing::Test::RecordProperty(
      StrCat(job.colocated ? "colocated_" : "separate_", job.workers, "x", job.servers),
      StrCat(Predicted(job) * 1e3, " ms x ", ratio));
  return ratio;
}

TEST(SimRoundTime, WithManyServersItIsTheClosedForm) {
  for (const Job& job : std::vector<Job>{{1, 4}, {2, 4}, {2, 16}, {4, 4}, {8, 4}, {8, 8}, {16, 8}, {16, 16}})
    EXPECT_NEAR(RatioOf(job), 1, 0.05) << job.workers << " x " << job.servers;
}

TEST(SimRoundTime, ColocatedItIsTheClosedForm) {
  for (const uint32_t n : {2, 4, 8, 16}) EXPECT_NEAR(RatioOf({n, n, true}), 1, 0.02) << n;
}

// By default, with 16 servers, keys of 512 KiB are sliced over four servers each, because a server's share is
// 1 MiB. All workers then send to the servers of the first keys first.
TEST(SimRoundTime, ByDefaultKeysOnFewerServersTakeLittleLonger) {
  const std::vector<int64_t> keys(4 * kRoundKeys, kKeyElements);  // 16 MiB
  for (const Job& job : std::vector<Job>{{2, 2}, {4, 4}, {8, 8}, {16, 16, true}}) {
    Job by_default = job;
    by_default.bigarray_bound.reset();
    const double ratio = RoundSeconds(by_default, keys) / RoundSeconds(job, keys);
    EXPECT_GE(ratio, 0.9) << job.workers << " x " << job.servers;
    EXPECT_LE(ratio, 1.1) << job.workers << " x " << job.servers;
  }
}

// Each worker begins with a different server. Otherwise all would queue at the same server, one server after
// the other, and the ratio would be 1.25 with 16 servers.
TEST(SimRoundTime, ColocatedWithOneLargeKeyItIsNearTheClosedForm) {
  for (const uint32_t n : {4, 8, 16})
    EXPECT_LE(RatioOf({n, n, true}, {kRoundKeys * kKeyElements}), 1.12) << n;
}

// A worker's congestion window holds back its last parts until earlier ones have arrived. The windows of many
// workers together form a queue at a server, in which one worker's first push waits: its part closes late,
// and until then the server sends nothing back.
TEST(SimRoundTime, WhereWindowsLimitItIsUpToHalfLonger) {
  for (const Job& job : std::vector<Job>{{2, 2}, {4, 1}, {8, 1}, {8, 2}, {16, 2}}) {
    const double ratio = RatioOf(job);
    EXPECT_GE(ratio, 0.99) << job.workers << " x " << job.servers;
    EXPECT_LE(ratio, 1.5) << job.workers << " x " << job.servers;
  }
}

TEST(SimRoundTime, OfAFewBytesItIsTheDelayThereAndBack) {
  for (const Job& job : std::vector<Job>{{1, 1}, {4, 2}, {20, 5}, {50, 10, true}})
    EXPECT_NEAR(RoundSeconds(job, {1}) / (2 * ToSeconds(kDelay)), 1, 0.25)
        << job.workers << " x " << job.servers;
}

}  // namespace
}  // namespace sluice::testing
