// What a pending request waits for, and when it waits in vain.
#include "server/reply/wait_conditions.h"

#include <gmock/gmock.h>

#include "unit/server/steps_fixture.h"

namespace sluice::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WaitConditions : public StepsFixture {
 protected:
  std::string Missing(const ShardKey& key) { return MissingText(keys, workers, key, key.parts[0]); }
};

TEST_F(WaitConditions, ASyncPartIsReadyOnceItHasTheVersion) {
  ShardKey& key = AddKey();
  ShardPart& part = key.parts[0];
  EXPECT_FALSE(IsReady(key, part, {.min_version = 0}));
  ASSERT_TRUE(keys.InitialiseWeight(key, part, Values(1)));
  EXPECT_TRUE(IsReady(key, part, {.min_version = 0}));
  EXPECT_FALSE(IsReady(key, part, {.min_version = 1}));
  part.version = 1;
  EXPECT_TRUE(IsReady(key, part, {.min_version = 1}));
}

TEST_F(WaitConditions, AnAsyncKeyIsReadyWholeAndForEachWorkerByItsOwnPushes) {
  ShardKey& key = AddKey(2, wire::SyncMode::kAsync);
  ASSERT_TRUE(keys.InitialiseWeight(key, key.parts[0], Values(1)));
  EXPECT_FALSE(IsReady(key, key.parts[0], {.rank = 1})) << "the other part has no value yet";
  ASSERT_TRUE(keys.InitialiseWeight(key, key.parts[1], Values(1)));
  EXPECT_TRUE(IsReady(key, key.parts[0], {.rank = 1}));
  key.pushes[0].applied = 1;
  EXPECT_TRUE(IsReady(key, key.parts[0], {.rank = 0, .min_version = 1}));
  EXPECT_FALSE(IsReady(key, key.parts[0], {.rank = 1, .min_version = 1}));
}

TEST_F(WaitConditions, AnswersOfAnEarlierStateComeFirst) {
  ShardKey& key = AddInitialisedKey(2, wire::SyncMode::kAsync);
  const auto state = std::make_shared<const uint64_t>(key.parts[0].version);
  key.pinned[1] = state;
  EXPECT_TRUE(IsReady(key, key.parts[0], {.rank = 1})) << "the same state";
  ++key.parts[0].version;
  EXPECT_FALSE(IsReady(key, key.parts[0], {.rank = 1}));
  EXPECT_TRUE(WaitsForPinned(key, key.parts[0], {.rank = 1}));
  EXPECT_TRUE(IsReady(key, key.parts[0], {.rank = 0})) << "another worker";
  EXPECT_FALSE(WaitsForPinned(key, key.parts[0], {.rank = 1, .want_data = false})) << "it shows no state";
}

TEST_F(WaitConditions, NamesWhoIsMissing) {
  ShardKey& key = AddKey();
  EXPECT_EQ(Missing(key), "worker 0 to initialise the key");
  ASSERT_TRUE(keys.InitialiseWeight(key, key.parts[0], Values(1)));
  EXPECT_EQ(Missing(key), "worker 0, worker 1");
  key.parts[0].rounds.emplace_back().Add(0, {Values(1)});
  EXPECT_EQ(Missing(key), "worker 1");
  EXPECT_EQ(MissingText(keys, workers, key, key.parts[0], {.awaits_set = true}),
            "worker 0 to set it as well (set a weight on worker 0 or on all workers)");
}

TEST_F(WaitConditions, WithNormsThePushesOfAllPartsAreMissing) {
  SetOptimizer(OptimizerKind::kLamb);
  ShardKey& key = AddInitialisedKey(2);
  key.parts[0].rounds.emplace_back().Add(0, {Values(1)});
  key.parts[1].rounds.emplace_back().Add(1, {Values(1)});
  EXPECT_EQ(Missing(key), "worker 0, worker 1");
}

TEST_F(WaitConditions, ASetIsInVainOnceWorker0HasPushedWithoutIt) {
  ShardKey& key = AddInitialisedKey();
  ShardPart& part = key.parts[0];
  part.AddPending({.rank = 1, .want_data = false, .awaits_set = true, .peer = {9}, .request_id = 5});
  part.AddPending({.rank = 1, .min_version = 1, .request_id = 6});
  key.awaits_set = true;
  EXPECT_THAT(TakeUnsatisfiable(workers, key), IsEmpty());
  EXPECT_TRUE(key.awaits_set);
  part.rounds.emplace_back().Add(0, {Values(1)});
  const auto taken = TakeUnsatisfiable(workers, key);
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_EQ(taken[0].peer, transport::PeerId{9});
  EXPECT_EQ(taken[0].request_id, 5u);
  EXPECT_THAT(taken[0].why, HasSubstr("worker 1 has set the weight of key 0 before round 1"));
  EXPECT_FALSE(key.awaits_set);
  EXPECT_THAT(part.pending, SizeIs(1)) << "the pull still waits";
}

TEST_F(WaitConditions, NobodyInitialisesAKeyAfterWorker0HasLeft) {
  ShardKey& key = AddKey();
  key.parts[0].AddPending({.rank = 1, .request_id = 5});
  Leave(0, wire::NodeState::kDead);
  EXPECT_THAT(TakeUnsatisfiable(workers, key), IsEmpty()) << "it may come back";
  Leave(0, wire::NodeState::kFinished);
  const auto taken = TakeUnsatisfiable(workers, key);
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_THAT(taken[0].why, HasSubstr("worker 0 has left the job and has not initialised key 0"));
}

}  // namespace
}  // namespace sluice::server
