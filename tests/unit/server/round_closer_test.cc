// When a round closes, in which order, and what its update writes.
#include "server/update/round_closer.h"

#include <gmock/gmock.h>

#include "base/executor.h"
#include "transport/sim/sim_lease.h"
#include "unit/server/steps_fixture.h"

namespace sluice::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class RoundCloserTest : public StepsFixture {
 protected:
  void Push(uint32_t rank, ShardKey& key, size_t part, uint64_t round, Frame gradient) {
    ASSERT_TRUE(aggregator.AdmitSync(rank, key, key.parts[part], round, {std::move(gradient), 1}).ok());
  }
  // Returns the parts that have closed a round, and the versions they had just then.
  std::vector<std::pair<uint32_t, uint64_t>> Close(ShardKey& key, size_t part) {
    std::vector<std::pair<uint32_t, uint64_t>> closed;
    closer.CloseRounds(key, key.parts[part],
                       [&](const ShardPart& one) { closed.emplace_back(one.ref.part, one.version); });
    return closed;
  }

  Aggregator aggregator{keys, workers, true};
  UpdateQueue updates{{std::make_shared<InlineExecutor>()}};
  RoundCloser closer{keys, workers, aggregator, updates, 1 << 20};
};

TEST_F(RoundCloserTest, RoundsCloseInOrderOnceAllLiveWorkersHavePushed) {
  SetOptimizer(OptimizerKind::kAccumulate);
  ShardKey& key = AddInitialisedKey();
  for (const uint64_t round : {2, 1}) Push(0, key, 0, round, Values(10));
  Push(1, key, 0, 2, Values(100));
  EXPECT_THAT(Close(key, 0), IsEmpty());
  Push(1, key, 0, 1, Values(1000));
  EXPECT_THAT(Close(key, 0), ElementsAre(Pair(0, 1), Pair(0, 2)));
  EXPECT_THAT(WeightOf(key.parts[0]), ElementsAre(1121, 1121));
  EXPECT_THAT(key.parts[0].rounds, IsEmpty());
  EXPECT_THAT(Close(key, 0), IsEmpty());
}

TEST_F(RoundCloserTest, AWorkerThatHasLeftIsNotWaitedFor) {
  ShardKey& key = AddInitialisedKey();
  Push(0, key, 0, 1, Values(7));
  EXPECT_THAT(Close(key, 0), IsEmpty());
  Leave(1, wire::NodeState::kDead);
  EXPECT_THAT(Close(key, 0), ElementsAre(Pair(0, 1)));
  EXPECT_THAT(WeightOf(key.parts[0]), ElementsAre(7, 7)) << "without an optimiser the sum is assigned";
}

// An update of leased gradients may wait in the queue; one of an async push may not, since the next push of
// the key may be applied before the queue runs.
TEST_F(RoundCloserTest, AnAsyncPushIsAppliedAtOnceWhereverItLies) {
  SetOptimizer(OptimizerKind::kAccumulate);
  const auto memory = std::make_shared<std::vector<float>>(2, 5.0f);
  const auto leased = [&] { return transport::SimLeased(std::as_bytes(std::span(*memory)), memory); };
  ShardKey& sync = AddInitialisedKey();
  for (const uint32_t rank : {0, 1}) Push(rank, sync, 0, 1, leased());
  EXPECT_THAT(Close(sync, 0), ElementsAre(Pair(0, 1)));
  EXPECT_TRUE(sync.parts[0].update_waits);
  updates.Run();
  EXPECT_THAT(WeightOf(sync.parts[0]), ElementsAre(11, 11));

  ShardKey& async = AddInitialisedKey(2, wire::SyncMode::kAsync);
  ShardKey::WorkerPushes& pushes = async.pushes[1];
  for (const uint64_t round : {1, 2}) {
    for (ShardPart& part : async.parts) {
      ASSERT_TRUE(aggregator.AdmitAsync(pushes, async, part, round, {leased(), 3, 2}).ok());
    }
  }
  EXPECT_EQ(closer.ApplyStaged(async, pushes), 2u);
  for (const ShardPart& part : async.parts) {
    EXPECT_FALSE(part.update_waits);
    EXPECT_THAT(WeightOf(part), Each(6)) << "1, and two pushes of 5, each divided by 2";
  }
  EXPECT_EQ(memory.use_count(), 1) << "the memory is the worker's again";
}

TEST_F(RoundCloserTest, PartsWithNormsCloseTogether) {
  SetOptimizer(OptimizerKind::kLamb);
  ShardKey& key = AddInitialisedKey(2);
  for (const uint32_t rank : {0u, 1u}) Push(rank, key, 1, 1, Values(1));
  EXPECT_THAT(Close(key, 1), IsEmpty());
  for (const uint32_t rank : {0u, 1u}) Push(rank, key, 0, 1, Values(1));
  EXPECT_THAT(Close(key, 0), ElementsAre(Pair(0, 1), Pair(1, 1)));
}

// Round 1 has norms and round 2 has not: the other part has all of round 2 already, and nobody pushes it
// again.
TEST_F(RoundCloserTest, APartThatWaitedForAnotherGoesOn) {
  SetOptimizer(OptimizerKind::kLamb);
  ShardKey& key = AddInitialisedKey(2);
  OptimizerConfig plain;
  plain.kind = OptimizerKind::kAccumulate;
  ASSERT_TRUE(keys.SetOptimizer(plain, {{key.entry.id, 2}}, 0).ok());
  for (const uint32_t rank : {0u, 1u})
    for (const uint64_t round : {1, 2}) Push(rank, key, 1, round, Values(1));
  EXPECT_THAT(Close(key, 1), IsEmpty());
  for (const uint32_t rank : {0u, 1u}) Push(rank, key, 0, 1, Values(1));
  EXPECT_THAT(Close(key, 0), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(1, 2)));
}

TEST_F(RoundCloserTest, AnUpdateOfLeasedGradientsWaitsForTheQueue) {
  SetOptimizer(OptimizerKind::kAccumulate);
  ShardKey& key = AddInitialisedKey();
  const auto memory = std::make_shared<std::vector<float>>(2, 5.0f);
  Push(0, key, 0, 1, Values(1));
  Push(1, key, 0, 1, transport::SimLeased(std::as_bytes(std::span(*memory)), memory));
  EXPECT_THAT(Close(key, 0), ElementsAre(Pair(0, 1)));
  EXPECT_TRUE(key.parts[0].update_waits);
  EXPECT_GT(memory.use_count(), 1);
  updates.Run();
  EXPECT_FALSE(key.parts[0].update_waits);
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_THAT(WeightOf(key.parts[0]), ElementsAre(7, 7));
}

TEST_F(RoundCloserTest, AsyncPushesAreAppliedWholeAndInTheirOrder) {
  SetOptimizer(OptimizerKind::kAccumulate);
  ShardKey& key = AddInitialisedKey(2, wire::SyncMode::kAsync);
  ShardKey::WorkerPushes& pushes = key.pushes[1];
  const auto push = [&](size_t part, uint64_t round) {
    ASSERT_TRUE(aggregator.AdmitAsync(pushes, key, key.parts[part], round, {Values(1), 1}).ok());
  };
  push(0, 2);
  push(1, 2);
  push(0, 1);
  EXPECT_EQ(closer.ApplyStaged(key, pushes), 0u);
  push(1, 1);
  EXPECT_EQ(closer.ApplyStaged(key, pushes), 2u);
  EXPECT_EQ(pushes.applied, 2u);
  for (const ShardPart& part : key.parts) EXPECT_THAT(WeightOf(part), ElementsAre(3, 3));
}

}  // namespace
}  // namespace sluice::server
