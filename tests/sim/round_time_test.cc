// How long a round takes on links with a bandwidth: real clients and shards in virtual time, beside the
// closed form of docs/design/scale.md. Machines themselves take no time here: these are its network terms.
#include <gtest/gtest.h>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

constexpr double kRate = 1.25e9;  // bytes a second each way: 10 Gbit/s
constexpr Duration kDelay = 20us;
// 4 MiB as a network has them: several keys, each sliced over all servers.
constexpr int kKeys = 8;
constexpr int64_t kKeyElements = 1 << 17;
constexpr double kKeyBytes = kKeyElements * sizeof(float), kModelBytes = kKeys * kKeyBytes;
constexpr double kLeastPart = 128 << 10;  // plan::PlacementOptions

struct Job {
  uint32_t workers, servers;
  bool colocated = false;
  // Every key lies on all servers; empty: on as many as by default.
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

// Until all workers have done so many rounds, with all that comes before the first.
double SecondsOf(const Job& job, int rounds, const std::vector<int64_t>& keys) {
  SimCluster cluster(OptionsOf(job));
  const Time begin = cluster.network().now();
  const RoundsResult result = RunRounds(cluster, {.rounds = rounds, .key_elements = keys, .cut_chance = 0});
  EXPECT_TRUE(result.completed) << result.mismatch << result.log;
  return ToSeconds(cluster.network().now() - begin);
}

double RoundSeconds(const Job& job,
                    const std::vector<int64_t>& keys = std::vector<int64_t>(kKeys, kKeyElements)) {
  return (SecondsOf(job, 3, keys) - SecondsOf(job, 1, keys)) / 2;
}

// The bytes of the busiest link, each way; separate: the last part's values follow its last push; the delay
// there and back.
double Predicted(const Job& job) {
  const double workers = job.workers, servers = job.servers, delays = 2 * ToSeconds(kDelay);
  if (job.colocated) return 2 * kModelBytes * (1 - 1 / workers) / kRate + delays;
  const double part = std::min(kKeyBytes / servers, kLeastPart);
  return (kModelBytes * std::max(1.0, workers / servers) + workers * part) / kRate + delays;
}

// Simulated / predicted.
double RatioOf(const Job& job, const std::vector<int64_t>& keys = std::vector<int64_t>(kKeys, kKeyElements)) {
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

// Keys of 512 KiB lie on four of 16 servers once a share is 1 MiB: all workers reach the first ones first.
TEST(SimRoundTime, ByDefaultKeysOnFewerServersTakeLittleLonger) {
  const std::vector<int64_t> keys(4 * kKeys, kKeyElements);  // 16 MiB
  for (const Job& job : std::vector<Job>{{2, 2}, {4, 4}, {8, 8}, {16, 16}, {16, 16, true}}) {
    Job by_default = job;
    by_default.bigarray_bound.reset();
    const double ratio = RoundSeconds(by_default, keys) / RoundSeconds(job, keys);
    EXPECT_GE(ratio, 0.9) << job.workers << " x " << job.servers;
    EXPECT_LE(ratio, 1.1) << job.workers << " x " << job.servers;
  }
}

// Each worker begins with another server, or all would queue at one after the other: 1.25 with 16.
TEST(SimRoundTime, ColocatedWithOneLargeKeyItIsNearTheClosedForm) {
  for (const uint32_t n : {4, 8, 16}) EXPECT_LE(RatioOf({n, n, true}, {kKeys * kKeyElements}), 1.12) << n;
}

// A worker's window holds its last parts back until some have arrived, and the windows of many workers make a
// queue before a server in which one worker's first push waits: its part closes late, and meanwhile nothing
// goes back.
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
