// The stages of a gradient (src/worker/gradient_stages.h) as they are reported to a Tracer: all stages of
// every round, in order, with the right number of bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/guarded.h"
#include "base/strings.h"
#include "contract/job.h"
#include "tensor/access.h"
#include "unit/tensor/gate.h"
#include "worker/gradient_stages.h"

namespace sluice::testing {
namespace {

using worker::Stage;

// Records for each round the stages, in the order of their first reports, and the bytes that were reported.
class Recorder final : public worker::Tracer {
 public:
  struct Round {
    std::vector<Stage> stages;
    std::map<Stage, uint64_t> bytes;
    Time last{};
    bool in_order = true;
  };

  void OnStage(Time now, Stage stage, uint32_t, uint64_t round, uint64_t bytes) override {
    rounds_.With([&](auto& rounds) {
      Round& one = rounds[round];
      if (!one.bytes.contains(stage)) one.stages.push_back(stage);
      one.bytes[stage] += bytes;
      one.in_order = one.in_order && now >= one.last;
      one.last = now;
    });
  }
  std::map<uint64_t, Round> rounds() const {
    return rounds_.With([](const auto& rounds) { return rounds; });
  }

 private:
  Guarded<std::map<uint64_t, Round>> rounds_;
};

class TracedRounds : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Tracer, TracedRounds, ::testing::Values(Compression::kNone, Compression::kFloat16),
                         [](const auto& info) { return StrCat("dist_device_sync_", Name(info.param)); });

TEST_P(TracedRounds, EnterEveryStageInTheOrderOfTheTable) {
  constexpr int kRounds = 3, kDevices = 2;
  const bool compressed = GetParam() != Compression::kNone;
  std::vector<Stage> stages(std::begin(worker::kStages), std::end(worker::kStages));
  if (!compressed) std::erase(stages, Stage::kCompress);
  constexpr uint64_t kBytes = 300 * 400 * sizeof(float);  // above the bound, so sliced over both servers
  Recorder recorder;
  bool on_cards = false;
  {
    Job job({.type = "dist_device_sync", .tracer = &recorder});
    job.Run([&](KVStore& kv) {
      const Key key = std::string("weight");
      on_cards = DeviceOf(kv).kind == DeviceKind::kGpu;
      kv.Init(key, Filled(kv, {300, 400}, 0));
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      kv.SetGradientCompression({.type = GetParam()});
      for (int round = 0; round < kRounds; ++round) {
        std::vector<NDArray> values = {Filled(kv, {300, 400}, 1, 0), Filled(kv, {300, 400}, 1, 1)};
        // Push and pull are separate, so that the ack comes before the value.
        kv.Push(key, values);
        kv.WaitAll();
        kv.Pull(key, values);
        kv.WaitAll();
        EXPECT_EQ(values[1].ToVector().back(), static_cast<float>((round + 1) * kDevices));
      }
    });
  }
  const auto rounds = recorder.rounds();
  for (uint64_t round = 1; round <= kRounds; ++round) {
    ASSERT_TRUE(rounds.contains(round)) << "round " << round;
    const Recorder::Round& heard = rounds.at(round);
    std::vector<Stage> heard_stages = heard.stages;
    // That a card has written a gradient is reported by another thread than the one that goes on with it.
    if (on_cards) std::ranges::sort(heard_stages);
    EXPECT_EQ(heard_stages, stages) << "round " << round;
    EXPECT_EQ(heard.bytes.at(Stage::kReduce), kDevices * kBytes);
    const uint64_t pushed = compressed ? kBytes / 2 : kBytes;
    for (const Stage stage : {Stage::kPush, Stage::kWait})
      EXPECT_EQ(heard.bytes.at(stage), pushed) << worker::Name(stage) << " of round " << round;
    EXPECT_EQ(heard.bytes.at(Stage::kDeliver), kBytes) << "round " << round;
    EXPECT_EQ(heard.bytes.at(Stage::kBroadcast), kDevices * kBytes);
  }
}

TEST(TracerTest, AGradientEntersTheReductionWhenBackwardHasWrittenIt) {
  Recorder recorder;
  {
    Job job({.type = "dist_sync", .tracer = &recorder});
    job.Run([&](KVStore& kv) {
      const Key key = std::string("weight");
      kv.Init(key, Filled(kv, {4}, 0));
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      const NDArray gradient = Filled(kv, {4}, 1);
      Gate backward;
      const Event behind[] = {backward.event()};
      NDArray written = gradient;
      SetWriter(written, EnqueueOn(gradient.context(), "backward", behind, [] {}));
      kv.Push(key, gradient);
      EXPECT_TRUE(recorder.rounds().empty());
      backward.Open();
      kv.WaitAll();
    });
  }
  const auto rounds = recorder.rounds();
  ASSERT_TRUE(rounds.contains(1));
  EXPECT_EQ(rounds.at(1).stages.front(), Stage::kReduce);
  EXPECT_TRUE(rounds.at(1).in_order);
}

// Small keys of one call that lie on one server leave in one batch: each key's stages report its own bytes.
TEST(TracerTest, EachKeyOfABatchReportsItsOwnBytes) {
  Recorder recorder;
  {
    Job job({.type = "dist_sync", .servers = 1, .tracer = &recorder});
    job.Run([&](KVStore& kv) {
      const NDArray small = Filled(kv, {4}, 1), larger = Filled(kv, {100}, 1);
      kv.Init({"a", "b"}, {small, larger});
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      kv.WaitAll();
      kv.Push({"a", "b"}, {small, larger});
      kv.WaitAll();
    });
  }
  const auto rounds = recorder.rounds();
  ASSERT_TRUE(rounds.contains(1));
  for (const Stage stage : {Stage::kQueue, Stage::kPush, Stage::kWait})
    EXPECT_EQ(rounds.at(1).bytes.at(stage), (4 + 100) * sizeof(float)) << worker::Name(stage);
}

}  // namespace
}  // namespace sluice::testing
