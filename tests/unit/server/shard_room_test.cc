// Answers to a peer for which too much is queued: they wait, take no memory, and leave once.
#include <gmock/gmock.h>

#include "kvstore/rows/row_frame.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ShardRoom : public ::testing::Test {
 protected:
  explicit ShardRoom(uint32_t workers = 2) : harness(workers) {
    EXPECT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  }
  // The shard learns that there is no room when it has sent something.
  void Fill(uint32_t worker, uint32_t key) {
    harness.network.without_room.insert(ShardHarness::PeerOf(worker));
    harness.Pull(worker, key, 0);
  }
  std::vector<Sent> Room(uint32_t worker) {
    harness.network.without_room.erase(ShardHarness::PeerOf(worker));
    harness.shard.OnRoom(harness.now, ShardHarness::PeerOf(worker), harness.network);
    return harness.network.Take();
  }
  std::string Dump() { return harness.shard.DumpState(harness.now); }

  ShardHarness harness;
};

TEST_F(ShardRoom, AnAnswerWaitsUntilItsPeerHasRoomAndNobodyElseWaits) {
  const uint32_t key = harness.AddKey(std::vector<float>{1, 2, 3, 4}, wire::SyncMode::kSync, 2);
  Fill(0, key);
  EXPECT_TRUE(harness.Pull(0, key, 0).empty());
  EXPECT_THAT(Dump(), HasSubstr("an answer to worker 0 waits for room on its connection"));
  EXPECT_THAT(harness.Join<float>(harness.Pull(1, key, 0)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(harness.Join<float>(Room(0)), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(Room(0).empty());
  EXPECT_THAT(Dump(), Not(HasSubstr("waits for room")));
  EXPECT_EQ(harness.Counter("answers_deferred"), 2u);
}

TEST_F(ShardRoom, VersionsAndAcknowledgementsGoAtOnce) {
  const uint32_t key = harness.AddKey(std::vector<float>{1});
  Fill(0, key);
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  harness.Push<float>(1, key, 1, {1});
  EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, 1, {1}, {.want_value = true})));
  EXPECT_THAT(harness.Join<float>(Room(0)), ElementsAre(3));
}

TEST_F(ShardRoom, ARepeatAddsNoSecondAnswer) {
  const uint32_t key = harness.AddKey(std::vector<float>{1, 2, 3, 4}, wire::SyncMode::kSync, 2);
  Fill(0, key);
  harness.Pull(0, key, 0);
  const uint64_t request = harness.last_id;
  wire::Message again;
  again.sender = {wire::Role::kWorker, 0, 1000};
  again.id = request;
  again.body = wire::Pull{.parts = {{{key, 0}, 0, 0}, {{key, 1}, 0, 0}}};
  EXPECT_TRUE(harness.DeliverRaw(ShardHarness::PeerOf(0), again).empty());
  // Also where there is room again and the shard has not heard of it yet; or from another connection.
  harness.network.without_room.clear();
  EXPECT_TRUE(harness.DeliverRaw(ShardHarness::PeerOf(0), again).empty());
  size_t values = 0;
  for (const Sent& sent : Room(0)) {
    EXPECT_EQ(sent.message.in_reply_to, request);
    values += sent.As<wire::Values>().parts.size();
  }
  EXPECT_EQ(values, 2u);
}

TEST_F(ShardRoom, WhoComesBackByAnotherConnectionIsAnsweredThere) {
  const uint32_t key = harness.AddKey(std::vector<float>{5});
  Fill(0, key);
  harness.Pull(0, key, 0);
  wire::Message again;
  again.sender = {wire::Role::kWorker, 0, 1000};
  again.id = harness.last_id;
  again.body = wire::Pull{.parts = {{{key, 0}, 0, 0}}};
  const auto answers = harness.DeliverRaw({7}, again);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, transport::PeerId{7});
  EXPECT_TRUE(Room(0).empty());
}

TEST_F(ShardRoom, AnAnswerInASyncStoreIsOfTheRoundThatWasPromised) {
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  EXPECT_TRUE(harness.Pull(0, key, 1).empty());
  harness.network.without_room.insert(ShardHarness::PeerOf(0));
  harness.Pull(0, harness.AddKey(std::vector<float>{0}), 0);
  harness.Push<float>(1, key, 1, {2});  // closes the round
  const auto answers = Room(0);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].As<wire::Values>().parts[0].version, 1u);
  EXPECT_THAT(harness.Join<float>(answers), ElementsAre(3));
}

TEST_F(ShardRoom, AnAsyncPullIsOfOneStateWhateverIsPushedMeanwhile) {
  const uint32_t key = harness.AddKey(std::vector<float>{1, 1, 1, 1}, wire::SyncMode::kAsync, 1);
  Fill(0, key);
  EXPECT_TRUE(harness.Pull(0, key, 0).empty());
  const uint64_t first = harness.last_id;
  harness.Push<float>(1, key, 1, {10, 10, 10, 10});
  EXPECT_TRUE(harness.Pull(0, key, 0).empty());  // the state since waits behind the first
  const uint64_t second = harness.last_id;
  harness.Push<float>(1, key, 2, {10, 10, 10, 10});
  std::map<uint64_t, std::vector<Sent>> answers;
  for (Sent& sent : Room(0)) answers[sent.message.in_reply_to].push_back(std::move(sent));
  EXPECT_THAT(harness.Join<float>(answers[first]), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(harness.Join<float>(answers[second]), ElementsAre(21, 21, 21, 21));
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_TRUE(Room(0).empty());
}

TEST_F(ShardRoom, AnAsyncWorkersOwnPushIsInWhatItPullsNext) {
  const uint32_t key = harness.AddKey(std::vector<float>{1, 1}, wire::SyncMode::kAsync, 1);
  Fill(0, key);
  harness.Pull(0, key, 0);
  const uint64_t first = harness.last_id;
  harness.Push<float>(0, key, 1, {4, 4}, {.want_value = true});
  const uint64_t second = harness.last_id;
  std::map<uint64_t, std::vector<Sent>> answers;
  for (Sent& sent : Room(0)) answers[sent.message.in_reply_to].push_back(std::move(sent));
  EXPECT_THAT(harness.Join<float>(answers[first]), ElementsAre(1, 1));
  EXPECT_THAT(harness.Join<float>(answers[second]), ElementsAre(5, 5));
  EXPECT_EQ(answers[second].at(0).As<wire::Values>().parts[0].version, 1u);
  EXPECT_THAT(harness.Join<float>(harness.Pull(0, key, 1)), ElementsAre(5, 5));
}

// Whatever it asks for, and however often.
TEST_F(ShardRoom, APeerThatNeverReadsCostsOneAnswerOfEachPart) {
  constexpr size_t kElements = 1024;
  const std::vector<float> ones(kElements, 1);
  const uint32_t sync = harness.AddKey(ones),
                 async = harness.AddKey(ones, wire::SyncMode::kAsync, kElements / 4);
  Fill(0, sync);
  for (uint64_t i = 1; i <= 200; ++i) {
    EXPECT_TRUE(harness.Pull(0, sync, 0).empty());
    EXPECT_TRUE(harness.Pull(0, async, 0).empty());
    EXPECT_TRUE(OnlyAck(harness.Push<float>(1, async, i, ones)));
  }
  size_t values = 0;
  for (const Sent& sent : Room(0)) values += sent.As<wire::Values>().parts.size();
  EXPECT_EQ(values, 1u + 4u + 4u);  // the async key's are the first state and the newest
}

TEST_F(ShardRoom, WhatAPeerHasNoRoomForIsNoWaitForOthers) {
  const uint32_t key = harness.AddKey(std::vector<float>{1});
  Fill(0, key);
  harness.Pull(0, key, 0);
  EXPECT_TRUE(harness.RunFor(10s).empty());
}

// The first few MiB of one pull leave at once; then the network is asked for room.
TEST_F(ShardRoom, AnAnswerOfManyPartsLeavesAsThereIsRoom) {
  constexpr int64_t kPart = 1 << 18;  // 1 MiB
  constexpr size_t kParts = 20;
  const uint32_t key = harness.AddKey(std::vector<float>(kParts * kPart, 1), wire::SyncMode::kSync, kPart);
  harness.network.without_room.insert(ShardHarness::PeerOf(0));
  size_t values = harness.Pull(0, key, 0).size();
  EXPECT_GE(values, 1u);
  EXPECT_LE(values, 5u);
  harness.network.without_room.clear();
  harness.network.on_send = [&] {
    if (++values == 12) harness.network.without_room.insert(ShardHarness::PeerOf(0));
  };
  harness.shard.OnRoom(harness.now, ShardHarness::PeerOf(0), harness.network);
  EXPECT_GE(values, 12u);
  EXPECT_LE(values, 16u);
  Room(0);
  EXPECT_EQ(values, kParts);
}

TEST_F(ShardRoom, WithRoomAllLeavesAtOnce) {
  constexpr int64_t kPart = 1 << 18;
  const uint32_t key = harness.AddKey(std::vector<float>(20 * kPart, 1), wire::SyncMode::kSync, kPart);
  EXPECT_EQ(harness.Pull(0, key, 0).size(), 20u);
  EXPECT_THAT(Dump(), Not(HasSubstr("waits for room")));
}

TEST_F(ShardRoom, StatesAndRowsAreReadWhenTheyLeave) {
  OptimizerConfig config;
  config.momentum = 0.5;
  config.learning_rate = 1;
  ASSERT_TRUE(harness.shard.SetOptimizer(config, {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  Fill(0, key);
  EXPECT_TRUE(harness.Pull(0, key, 0, 1).empty());
  for (const uint32_t w : {0u, 1u}) harness.Push<float>(w, key, 1, {1});
  const auto state = harness.Join<float>(Room(0));
  ASSERT_EQ(state.size(), 1u);
  EXPECT_EQ(std::abs(state[0]), 2);
}

class ShardRoomOfOne : public ShardRoom {
 protected:
  ShardRoomOfOne() : ShardRoom(1) {}
};

TEST_F(ShardRoomOfOne, PullsOfRowsWaitBesideEachOther) {
  wire::KeyEntry entry;
  entry.id = 0;
  entry.spec = {int64_t{0}, DType::kFloat32, Shape{8, 1}};
  entry.spec.rows = RowInit::Constant(3);
  entry.slices = {{0, 0, 8}};
  entry.part_elements = 8;
  ASSERT_TRUE(harness.shard.AddKeys({entry}).ok());
  const auto pull = [&](std::vector<int64_t> ids) {
    return harness.Deliver(0, wire::PullRows{.parts = {{{0, 0}, 0, 0}}}, {FrameOf(ids)});
  };
  harness.network.without_room.insert(ShardHarness::PeerOf(0));
  EXPECT_EQ(pull({1}).size(), 1u);
  EXPECT_TRUE(pull({2}).empty());
  EXPECT_TRUE(pull({3, 4}).empty());
  std::vector<size_t> sizes;
  for (const Sent& sent : Room(0)) sizes.push_back(sent.message.payload[0].size() / sizeof(float));
  EXPECT_THAT(sizes, ElementsAre(1, 2));
}

}  // namespace
}  // namespace sluice::testing
