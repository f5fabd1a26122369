// Large updates of one message, done together by the shard's thread and helpers.
#include <gmock/gmock.h>

#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/rng.h"
#include "compression/codec.h"
#include "transport/sim/sim_lease.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kPart = 64 << 10;  // elements: 256 KiB
constexpr size_t kParts = 4, kElements = kParts * kPart;

// Begins what it was asked for when it is told to.
class LateExecutor final : public Executor {
 public:
  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  void RunAll() {
    for (; !tasks_.empty(); tasks_.pop_front()) tasks_.front()();
  }
  size_t waiting() const { return tasks_.size(); }

 private:
  std::deque<Task> tasks_;
};

server::ShardOptions With(server::UpdateQueue::Helpers helpers) {
  server::ShardOptions options;
  options.helpers = std::move(helpers);
  return options;
}
server::UpdateQueue::Helpers Threads(int count) {
  server::UpdateQueue::Helpers threads;
  for (int i = 0; i < count; ++i) threads.push_back(std::make_shared<ThreadExecutor>("helper"));
  return threads;
}

std::vector<float> Noise(Rng& rng) {
  std::vector<float> values(kElements);
  for (float& v : values) v = static_cast<float>(rng.Normal());
  return values;
}

// A worker's memory, and all parts of it in one message.
using Memory = std::shared_ptr<std::vector<float>>;
std::vector<Sent> PushLeased(ShardHarness& harness, uint32_t worker, uint32_t key, uint64_t round,
                             Memory memory, wire::Push push = {}, bool want_value = false) {
  const size_t each = memory->size() * sizeof(float) / kParts;
  wire::Frames frames;
  for (uint32_t part = 0; part < kParts; ++part) {
    push.parts.push_back({{key, part}, round, want_value});
    frames.push_back(
        transport::SimLeased(std::as_bytes(std::span(*memory)).subspan(part * each, each), memory));
  }
  memory = nullptr;
  return harness.Deliver(worker, std::move(push), std::move(frames));
}
std::vector<Sent> PushLeased(ShardHarness& harness, uint32_t worker, uint32_t key, uint64_t round,
                             const std::vector<float>& values, wire::Push push = {},
                             bool want_value = false) {
  return PushLeased(harness, worker, key, round, std::make_shared<std::vector<float>>(values),
                    std::move(push), want_value);
}

// What a shard holds after each of some rounds of two workers under `config`.
std::vector<std::vector<float>> Train(const OptimizerConfig& config, server::ShardOptions options) {
  Rng rng(1);
  ShardHarness harness(2, std::move(options));
  EXPECT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
  const uint32_t key = harness.AddKey(Noise(rng), wire::SyncMode::kSync, kPart);
  std::vector<std::vector<float>> seen;
  for (uint64_t round = 1; round <= 3; ++round) {
    EXPECT_TRUE(OnlyAck(PushLeased(harness, 0, key, round, Noise(rng))));
    PushLeased(harness, 1, key, round, Noise(rng), {}, true);
    seen.push_back(harness.Weight<float>(key));
  }
  seen.push_back(harness.Weight<float>(key, 1));
  return seen;
}

TEST(ShardUpdates, HelpersChangeNoBit) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kLamb}) {
    const OptimizerConfig config{.kind = kind, .learning_rate = 0.1, .momentum = 0.9};
    const auto alone = Train(config, {});
    // One that does all of it, before the shard looks; some that share it with the shard.
    for (const auto& helpers :
         {server::UpdateQueue::Helpers{std::make_shared<InlineExecutor>()}, Threads(3)}) {
      server::ShardOptions options = With(helpers);
      EXPECT_EQ(Train(config, options), alone);
      options.cache_bytes = 0;  // new weights bypass the caches
      EXPECT_EQ(Train(config, options), alone);
    }
  }
}

// A block always comes from the same thread (sluice/updater.h), and helpers take whatever is next.
TEST(ShardUpdates, AServersOwnUpdaterRunsOnTheShardsThreadAlone) {
  server::ShardOptions options = With(Threads(3));
  std::mutex mutex;
  std::set<std::thread::id> threads;
  options.updater = [&](const UpdateContext&, std::span<const float>, std::span<float>) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  ShardHarness harness(1, std::move(options));
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  for (uint64_t round = 1; round <= 3; ++round)
    PushLeased(harness, 0, key, round, std::vector<float>(kElements, 1));
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
}

TEST(ShardUpdates, NobodyWaitsForAHelperThatHasNotBegun) {
  const auto late = std::make_shared<LateExecutor>();
  ShardHarness harness(1, With({late}));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  for (uint64_t round = 1; round <= 3; ++round)
    PushLeased(harness, 0, key, round, std::vector<float>(kElements, 1));
  EXPECT_EQ(late->waiting(), 1u);  // called once, until it has come
  EXPECT_THAT(harness.Weight<float>(key), Each(3));
  late->RunAll();  // finds nothing left
  EXPECT_THAT(harness.Weight<float>(key), Each(3));
  PushLeased(harness, 0, key, 4, std::vector<float>(kElements, 1));
  EXPECT_EQ(late->waiting(), 1u);  // it has left, and is called again
}

TEST(ShardUpdates, OfSeveralMessagesComeTogetherWhenTheLoopRests) {
  ShardHarness harness(1, With(Threads(1)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  std::vector<uint32_t> keys(3);
  for (uint32_t& key : keys)
    key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  harness.more_wait = true;
  for (const uint32_t key : keys)
    EXPECT_THAT(PushLeased(harness, 0, key, 1, std::vector<float>(kElements, 1), {}, true), IsEmpty());
  harness.shard.OnBurstEnd(harness.now, harness.network);
  const std::vector<Sent> answers = harness.network.Take();
  EXPECT_THAT(answers, SizeIs(keys.size()));
  for (const Sent& answer : answers)
    EXPECT_THAT(ShardHarness::Join<float>({answer}), AllOf(SizeIs(kElements), Each(1)));
}

TEST(ShardUpdates, NeverMoreThanAFewMebibytesWait) {
  static_assert(3 * kElements * sizeof(float) < server::UpdateQueue::kMostBytes &&
                4 * kElements * sizeof(float) >= server::UpdateQueue::kMostBytes);
  ShardHarness harness(1, With(Threads(1)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(4 * kElements), wire::SyncMode::kSync, 4 * kPart);
  harness.more_wait = true;
  EXPECT_THAT(ShardHarness::Join<float>(
                  PushLeased(harness, 0, key, 1, std::vector<float>(4 * kElements, 1), {}, true)),
              AllOf(SizeIs(4 * kElements), Each(1)));
}

TEST(ShardUpdates, WhoAsksForSomethingElseSeesThem) {
  ShardHarness harness(1, With(Threads(1)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  harness.more_wait = true;
  EXPECT_TRUE(OnlyAck(PushLeased(harness, 0, key, 1, std::vector<float>(kElements, 1))));
  EXPECT_THAT(ShardHarness::Join<float>(harness.Pull(0, key, 1)), AllOf(SizeIs(kElements), Each(1)));
}

TEST(ShardUpdates, TheNextRoundOfAPartWaitsForItsLast) {
  const auto late = std::make_shared<LateExecutor>();
  ShardHarness harness(1, With({late}));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  harness.more_wait = true;
  for (uint64_t round = 1; round <= 3; ++round)
    PushLeased(harness, 0, key, round, std::vector<float>(kElements, 1));
  harness.more_wait = false;
  EXPECT_THAT(harness.Weight<float>(key), Each(3));
}

TEST(ShardUpdates, HelpersBeginBeforeTheLoopRests) {
  const auto late = std::make_shared<LateExecutor>();
  ShardHarness harness(1, With({late}));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  const auto memory = std::make_shared<std::vector<float>>(kElements, 1.0f);
  harness.more_wait = true;
  PushLeased(harness, 0, key, 1, memory);
  ASSERT_EQ(late->waiting(), 1u);
  late->RunAll();
  std::fill(memory->begin(), memory->end(), 5.0f);  // too late: it has been added up
  harness.more_wait = false;
  EXPECT_THAT(harness.Weight<float>(key), Each(1));
}

TEST(ShardUpdates, AShardThatEndsDoesNotWaitForWhatNobodyHasBegun) {
  const auto late = std::make_shared<LateExecutor>();
  for (const auto& helpers : {server::UpdateQueue::Helpers{late}, Threads(2)}) {
    ShardHarness harness(1, With(helpers));
    ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
    const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
    harness.more_wait = true;
    PushLeased(harness, 0, key, 1, std::vector<float>(kElements, 1));
  }
  late->RunAll();  // whose shard has gone
}

TEST(ShardUpdates, SmallOnesAndWhatCameBySocketsAskNobody) {
  const auto late = std::make_shared<LateExecutor>();
  ShardHarness harness(1, With({late}));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t small = harness.AddKey(std::vector<float>(4000), wire::SyncMode::kSync, 1000);
  PushLeased(harness, 0, small, 1, std::vector<float>(4000, 1));
  const uint32_t large = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  harness.Push(0, large, 1, std::vector<float>(kElements, 1));
  EXPECT_EQ(late->waiting(), 0u);
  EXPECT_THAT(harness.Weight<float>(small), Each(1));
  EXPECT_THAT(harness.Weight<float>(large), Each(1));
}

TEST(ShardUpdates, SeveralRoundsCloseInOneMessage) {
  ShardHarness harness(2, With(Threads(2)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  const std::vector<float> ones(kElements, 1);
  for (const uint64_t round : {2, 3}) PushLeased(harness, 0, key, round, ones);
  for (const uint64_t round : {1, 2, 3}) PushLeased(harness, 1, key, round, ones);
  EXPECT_THAT(harness.Weight<float>(key), Each(0));
  const auto values = PushLeased(harness, 0, key, 1, ones, {}, true);
  EXPECT_THAT(ShardHarness::Join<float>(values), Each(6));
  EXPECT_THAT(harness.Versions(key), ElementsAre(3, 3, 3, 3));
}

TEST(ShardUpdates, ADeathClosesRoundsOfManyPartsAtOnce) {
  ShardHarness harness(2, With(Threads(2)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  PushLeased(harness, 0, key, 1, std::vector<float>(kElements, 1));
  harness.Pull(0, key, 1);
  harness.roster.back().state = wire::NodeState::kDead;
  harness.SetMembership(2);
  EXPECT_THAT(ShardHarness::Join<float>(harness.network.Take()), Each(1));
}

TEST(ShardUpdates, RoundedWeightsAreOfTheNewOnes) {
  ShardHarness harness(1, With(Threads(1)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  const auto answers = PushLeased(harness, 0, key, 1, std::vector<float>(kElements, 1),
                                  wire::Push{.values = Compression::kBFloat16}, true);
  std::vector<float> values(kPart);
  ASSERT_FALSE(answers.empty());
  for (const Sent& sent : answers) {
    for (const Frame& frame : sent.message.payload) {
      compression::Decode({frame.data(), frame.size(), Compression::kBFloat16}, DType::kFloat32, 0, kPart,
                          values.data());
      EXPECT_THAT(values, Each(1));
    }
  }
}

TEST(ShardUpdates, LeasesAreReturnedBeforeTheAnswerLeaves) {
  ShardHarness harness(1, With(Threads(2)));
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements), wire::SyncMode::kSync, kPart);
  auto memory = std::make_shared<std::vector<float>>(kElements, 1.0f);
  const std::weak_ptr<std::vector<float>> held = memory;
  bool back = false;
  harness.network.on_send = [&] { back = held.expired(); };
  EXPECT_THAT(ShardHarness::Join<float>(PushLeased(harness, 0, key, 1, std::move(memory), {}, true)),
              Each(1));
  EXPECT_TRUE(back);
}

}  // namespace
}  // namespace sluice::testing
