// Values many times as large as what the network queues for a peer. They must arrive at the speed of the
// links, and none may be dropped or sent twice. The links have 200 MB/s; a peer has room for 3 MiB, and
// beyond 12 MiB messages are dropped.
#include <gtest/gtest.h>

#include <numeric>

#include "kvstore/rows/row_batch.h"
#include "kvstore/rows/row_frame.h"
#include "sim/sim_cluster.h"

namespace sluice::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr double kPressureRate = 200e6;       // bytes per second of each host's link
constexpr int64_t kElements = 48 * kMiB / 4;  // elements of the key, which has parts of 1 MiB
constexpr size_t kBytes = kElements * 4;

SimClusterOptions Narrow(uint32_t workers, double drop = 0) {
  SimClusterOptions options;
  options.workers = workers;
  options.servers = 1;
  options.link = {.transmit_rate = kPressureRate, .receive_rate = kPressureRate};
  options.faults = {.drop = drop, .min_delay = 50us, .max_delay = 100us};
  options.codec = 0;
  options.room_bytes = 3 * kMiB;
  options.max_queued_bytes = 12 * kMiB;
  return options;
}

// A job with one key, which every worker has initialised with 1, 2, 3, 1, 2, ...
class Pressure {
 public:
  explicit Pressure(const SimClusterOptions& options, wire::SyncMode mode = wire::SyncMode::kSync)
      : cluster(options), outs(options.workers) {
    EXPECT_TRUE(cluster.Join());
    const auto value = std::make_shared<Buffer>(kBytes);
    for (int64_t i = 0; i < kElements; ++i) value->as<float>()[i] = static_cast<float>(1 + i % 3);
    for (uint32_t w = 0; w < options.workers; ++w) {
      outs[w] = std::make_shared<Buffer>(kBytes);
      Call(w, [=, this](worker::Client& client, Time now, transport::Network& network) {
        client.Init(
            now, mode, {{{int64_t{0}, DType::kFloat32, Shape{kElements}}, Frame::Of(value)}}, Time::max(),
            [this](const auto& ids) { Callback(ids.ok() ? Status::Ok() : Status(ids.failure())); }, network);
      });
    }
    init_seconds = AwaitAll("init");
    // The momentum gives the key an optimiser state. The first push adds its sum to the weights.
    SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.5, .rescale_grad = -1});
  }

  using Use = std::function<void(worker::Client&, Time, transport::Network&)>;
  void Call(uint32_t w, Use use) {
    ++open_;
    cluster.OnWorker(w, std::move(use));
  }
  worker::Done Done() {
    return [this](const Status& status) { Callback(status); };
  }
  worker::Destination Out(uint32_t w) { return {outs[w]->bytes(), outs[w]}; }
  void Pull(uint32_t w, uint32_t slot = 0) {
    Call(w, [=, this](worker::Client& client, Time now, transport::Network& network) {
      auto op = PullOf(0, Out(w), Done());
      op->slot = slot;
      op->latest = slot > 0;
      client.Submit(now, std::move(op), network);
    });
  }
  void PushPull(uint32_t w, float gradient) {
    const auto source = std::make_shared<Buffer>(kBytes);
    std::ranges::fill(std::span(source->as<float>(), kElements), gradient);
    Call(w, [=, this](worker::Client& client, Time now, transport::Network& network) {
      client.Submit(now, PushPullOf(0, Frame::Of(source), Out(w), Done()), network);
    });
  }
  void SetOptimizer(const OptimizerConfig& config) {
    Call(0, [=, this](worker::Client& client, Time now, transport::Network& network) {
      client.requests().SetOptimizer(now, config, 0, Time::max(), Done(), network);
    });
    AwaitAll("set optimizer");
  }
  // Runs until all calls have ended. Returns the seconds of virtual time that passed.
  double AwaitAll(const char* what, Duration within = 10min) {
    const Time begin = cluster.network().now();
    EXPECT_TRUE(cluster.network().RunUntil([this] { return open_ == 0; }, begin + within))
        << what << "\n"
        << cluster.network().LogText();
    return ToSeconds(cluster.network().now() - begin);
  }
  uint64_t Count(const std::string& name) { return cluster.shard(0, 0).counters()[name]; }
  uint64_t overflowed() { return cluster.network().counters().overflowed; }
  // Expects that each worker has received 1, 2, 3, 1, ... plus `more`.
  void ExpectValues(float more = 0) {
    for (size_t w = 0; w < outs.size(); ++w) {
      int64_t wrong = 0;
      for (int64_t i = 0; i < kElements; ++i)
        wrong += outs[w]->as<float>()[i] != static_cast<float>(1 + i % 3) + more;
      EXPECT_EQ(wrong, 0) << "worker " << w;
    }
  }

  SimCluster cluster;
  std::vector<std::shared_ptr<Buffer>> outs;
  double init_seconds = 0;

 private:
  void Callback(const Status& status) {
    EXPECT_TRUE(status.ok()) << status.failure().message;
    --open_;
  }
  int open_ = 0;
};

class SimPressure : public ::testing::TestWithParam<wire::SyncMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SimPressure, ::testing::Values(wire::SyncMode::kSync, wire::SyncMode::kAsync),
                         [](const auto& info) {
                           return info.param == wire::SyncMode::kSync ? "sync" : "async";
                         });

TEST_P(SimPressure, AKeyOfManyTimesTheBoundIsMadeAtTheLinksPace) {
  Pressure job(Narrow(3), GetParam());
  EXPECT_LT(job.init_seconds, 1.05 * kBytes / kPressureRate)
      << "one worker's value comes, the others' do not";
  EXPECT_EQ(job.Count("repeats"), 0u);
  EXPECT_EQ(job.Count("duplicates"), 0u);
  EXPECT_EQ(job.overflowed(), 0u);
}

TEST_P(SimPressure, APullOfManyTimesTheBoundComesAtTheLinksPace) {
  Pressure job(Narrow(1), GetParam());
  const uint64_t before = job.Count("bytes_out");
  job.Pull(0);
  EXPECT_LT(job.AwaitAll("pull"), 1.05 * kBytes / kPressureRate);
  job.ExpectValues();
  EXPECT_EQ(job.Count("bytes_out") - before, kBytes);
  EXPECT_GT(job.Count("answers_deferred"), 0u);
  EXPECT_EQ(job.overflowed(), 0u);
}

TEST_P(SimPressure, SeveralWorkersPullTheSameKeyAtOnce) {
  constexpr uint32_t kWorkers = 4;
  Pressure job(Narrow(kWorkers), GetParam());
  const uint64_t before = job.Count("bytes_out");
  for (uint32_t w = 0; w < kWorkers; ++w) job.Pull(w);
  EXPECT_LT(job.AwaitAll("pulls"), 1.05 * kWorkers * kBytes / kPressureRate);
  job.ExpectValues();
  EXPECT_EQ(job.Count("bytes_out") - before, kWorkers * kBytes);
  EXPECT_EQ(job.overflowed(), 0u);
}

// The last worker's pushes close the rounds of all parts, so the server owes all values to all
// workers as fast as these pushes arrive. In an async store it owes the values of all parts when
// the last part has arrived.
TEST_P(SimPressure, ValuesOfRoundsThatCloseWaitForTheirLinks) {
  constexpr uint32_t kWorkers = 3;
  Pressure job(Narrow(kWorkers), GetParam());
  for (uint32_t w = 0; w + 1 < kWorkers; ++w) job.PushPull(w, 1);
  job.cluster.network().RunFor(5s);
  job.PushPull(kWorkers - 1, 1);
  job.AwaitAll("push_pull", 5s);
  if (GetParam() == wire::SyncMode::kSync) {
    job.ExpectValues(kWorkers);
  } else {
    EXPECT_GT(job.Count("answers_deferred"), 0u);
  }
  EXPECT_EQ(job.overflowed(), 0u);
}

TEST_P(SimPressure, StatesComeAtTheLinksPace) {
  Pressure job(Narrow(1), GetParam());
  job.PushPull(0, 1);
  job.AwaitAll("push_pull");
  job.Pull(0, 1);
  EXPECT_LT(job.AwaitAll("pull of states"), 1.05 * kBytes / kPressureRate);
  const std::span<const float> momentum(job.outs[0]->as<float>(), kElements);
  EXPECT_EQ(std::ranges::count(momentum, momentum[0]), kElements);
  EXPECT_NE(momentum[0], 0);
  EXPECT_EQ(job.overflowed(), 0u);
}

TEST_P(SimPressure, LostMessagesAreMadeUpFor) {
  for (const uint64_t seed : {1, 2, 3}) {
    SimClusterOptions options = Narrow(2, 0.02);
    options.seed = seed;
    Pressure job(options, GetParam());
    for (const uint32_t w : {0u, 1u}) job.Pull(w);
    job.AwaitAll("pulls", 60s);
    job.ExpectValues();
    for (const uint32_t w : {0u, 1u}) job.PushPull(w, 1);
    job.AwaitAll("push_pull", 60s);
    if (GetParam() == wire::SyncMode::kSync) job.ExpectValues(2);
    EXPECT_EQ(job.overflowed(), 0u) << seed;
  }
}

// One worker's link is cut, and its death is not detected yet. The other worker continues.
TEST_P(SimPressure, AWorkerThatIsCutOffHoldsUpNobodyElse) {
  Pressure job(Narrow(2), GetParam());
  auto& network = job.cluster.network();
  job.Pull(0);
  network.RunFor(20ms);
  job.cluster.KillWorker(0);
  job.cluster.OnWorker(1, [&](worker::Client& client, Time now, transport::Network& net) {
    client.Submit(now, PullOf(0, job.Out(1), job.Done()), net);
  });
  network.RunFor(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(3 * kBytes / kPressureRate)));
  EXPECT_EQ(job.outs[1]->as<float>()[kElements - 1], static_cast<float>(1 + (kElements - 1) % 3));
  EXPECT_EQ(job.cluster.shard(0, 0).DumpState(network.now()).find("waits for room"), std::string::npos);
}

TEST(SimPressureOfRows, RowsComeAtTheLinksPace) {
  constexpr int64_t kRows = 24 * 1024, kWidth = 512;  // 48 MiB
  SimClusterOptions options = Narrow(1);
  SimCluster cluster(options);
  ASSERT_TRUE(cluster.Join());
  bool made = false;
  cluster.OnWorker(0, [&](worker::Client& client, Time now, transport::Network& network) {
    client.Init(
        now, wire::SyncMode::kSync,
        {{{int64_t{0}, DType::kFloat32, Shape{kRows, kWidth}, 0, RowInit::Constant(7)}, Frame()}},
        Time::max(), [&](const auto& ids) { made = ids.ok(); }, network);
  });
  ASSERT_TRUE(cluster.network().RunUntil([&] { return made; }, cluster.network().now() + 10s));
  const plan::RowPlaces places = plan::PlacesOf(cluster.client(0).keys().entry(0));
  std::vector<std::shared_ptr<Buffer>> landed;
  size_t open = 0;
  // One pull for as many rows as a frame may hold, as a store does it.
  for (int64_t first = 0; first < kRows; first += 2048) {
    std::vector<int64_t> ids(2048);
    std::iota(ids.begin(), ids.end(), first);
    const kvstore::RowBatch batch = kvstore::MakeBatch(ids, places);
    const auto byte_ranges = std::make_shared<worker::RowByteRanges>();
    for (uint32_t part = 0; part < places.parts; ++part) {
      byte_ranges->sources.push_back({batch.part_begin[part] * 8, batch.RowsOf(part) * 8});
      byte_ranges->destinations.push_back(
          {batch.part_begin[part] * kWidth * 4, batch.RowsOf(part) * kWidth * 4});
    }
    const auto& out = landed.emplace_back(std::make_shared<Buffer>(ids.size() * kWidth * 4));
    const auto op =
        OperationOf(worker::OpKind::kPullRows, 0, [&open](const Status& status) { open -= status.ok(); });
    op->source = Frame::Copy(std::as_bytes(std::span(batch.ids)));
    op->only().destination = {out->bytes(), out};
    op->rows = byte_ranges;
    ++open;
    cluster.OnWorker(0, [op](worker::Client& client, Time now, transport::Network& network) {
      client.Submit(now, op, network);
    });
  }
  const Time begin = cluster.network().now();
  EXPECT_TRUE(cluster.network().RunUntil([&] { return open == 0; }, begin + 10s)) << open;
  EXPECT_LT(ToSeconds(cluster.network().now() - begin), 1.05 * kRows * kWidth * 4 / kPressureRate);
  for (const auto& out : landed)
    EXPECT_EQ(std::ranges::count(std::span(out->as<float>(), out->size() / 4), 7.0f), out->size() / 4);
  EXPECT_EQ(cluster.network().counters().overflowed, 0u);
}

}  // namespace
}  // namespace sluice::testing
