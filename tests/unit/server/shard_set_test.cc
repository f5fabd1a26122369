// Weights that worker 0 sets in no round, and workers that wait for it to.
#include <gmock/gmock.h>

#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kSync = wire::SyncMode::kSync, kAsync = wire::SyncMode::kAsync;

class ShardSet : public ::testing::Test {
 protected:
  static wire::Store StoreOf(uint32_t key, uint64_t version) {
    return {wire::Store::Purpose::kWeight, {{{key, 0}, 0, version}}};
  }
  std::vector<Sent> Set(uint32_t key, uint64_t version, const std::vector<float>& value,
                        uint32_t worker = 0) {
    return harness_.Deliver(worker, StoreOf(key, version), {FrameOf(value)});
  }
  // A worker that is not 0 has set the weight: waits for worker 0.
  std::vector<Sent> Await(uint32_t worker, uint32_t key, uint64_t round) {
    return harness_.Pull(worker, key, round, 0, wire::Pull::Want::kSet);
  }
  static bool OnlyVersion(const std::vector<Sent>& answers) {
    return answers.size() == 1 && answers[0].Is<wire::Values>() && !answers[0].As<wire::Values>().has_data;
  }

  ShardHarness harness_{2};
};

TEST_F(ShardSet, TheNextRoundGoesOnFromItWithTheStatesAsTheyAre) {
  ASSERT_TRUE(harness_.shard.SetOptimizer({.learning_rate = 1, .momentum = 0.5}, {}).ok());
  const uint32_t key = harness_.AddKey(std::vector<float>{0, 0});
  for (const uint32_t worker : {0, 1}) harness_.Push<float>(worker, key, 1, {1, 2});
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(-2, -4));  // as is the momentum
  harness_.Push<float>(1, key, 2, {1, 1});                        // before worker 0 sets the weight
  EXPECT_TRUE(OnlyAck(Set(key, 1, {10, 20})));
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(10, 20));
  EXPECT_THAT(harness_.Versions(key), ElementsAre(1));
  harness_.Push<float>(0, key, 2, {1, 1});
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(10 - 1 - 2, 20 - 2 - 2));
}

TEST_F(ShardSet, ALateRepeatUndoesNothing) {
  ASSERT_TRUE(harness_.shard.SetOptimizer(Accumulate(), {}).ok());
  for (const auto mode : {kSync, kAsync}) {
    const uint32_t key = harness_.AddKey(std::vector<float>{0}, mode);
    const auto message = [&](float value) {
      wire::Message set;
      set.sender = {wire::Role::kWorker, 0, 1000};
      set.id = ++harness_.last_id;
      set.body = StoreOf(key, 0);
      set.payload.push_back(FrameOf(std::vector<float>{value}));
      return set;
    };
    const auto first = message(5), second = message(6);
    const auto deliver = [&](const wire::Message& set) {
      EXPECT_TRUE(OnlyAck(harness_.DeliverRaw(ShardHarness::PeerOf(0), set)));
      return harness_.Weight<float>(key);
    };
    EXPECT_THAT(deliver(first), ElementsAre(5));
    EXPECT_THAT(deliver(second), ElementsAre(6));
    EXPECT_THAT(deliver(first), ElementsAre(6));
    for (const uint32_t worker : {0, 1}) harness_.Push<float>(worker, key, 1, {1});
    EXPECT_THAT(deliver(second), ElementsAre(8));
    EXPECT_THAT(deliver(message(9)), ElementsAre(8)) << "of a version that is past";
  }
}

TEST_F(ShardSet, AReaderOfTheVersionBeforeKeepsIt) {
  const uint32_t key = harness_.AddKey(std::vector<float>{1, 2});
  const auto before = harness_.Pull(1, key, 0);
  Set(key, 0, {7, 8});
  EXPECT_THAT(ShardHarness::Join<float>(before), ElementsAre(1, 2));
}

TEST_F(ShardSet, WhatCannotBeIsRefusedAndChangesNothing) {
  const uint32_t key = harness_.AddKey(std::vector<float>{1});
  EXPECT_THAT(ErrorOf(Set(key, 1, {7})), HasSubstr("version 1 is not there, the last one is 0"));
  EXPECT_THAT(ErrorOf(Set(key, 0, {7}, 1)), HasSubstr("worker 0's weights count"));
  EXPECT_THAT(ErrorOf(Set(key, 0, {7, 8})), HasSubstr("8 bytes came to be stored, the part has 4"));
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(1));
}

TEST_F(ShardSet, WhoHasSetItTooHearsOfWorkerZeroWhicheverComesFirst) {
  const uint32_t key = harness_.AddKey(std::vector<float>{1});
  EXPECT_TRUE(Await(1, key, 0).empty());
  const auto answers = Set(key, 0, {7});
  ASSERT_EQ(answers.size(), 2u);  // and the Ack
  EXPECT_TRUE(OnlyVersion({answers[0]}) || OnlyVersion({answers[1]}));
  EXPECT_TRUE(OnlyVersion(Await(1, key, 0))) << "a repeat";
  for (const uint32_t worker : {0, 1}) harness_.Push<float>(worker, key, 1, {1});
  EXPECT_TRUE(OnlyVersion(Await(1, key, 0))) << "a late repeat";
  Set(key, 1, {9});
  EXPECT_TRUE(OnlyVersion(Await(1, key, 1)));
}

TEST_F(ShardSet, WhoHasSetItAloneHearsWhatToDoWhicheverComesFirst) {
  const uint32_t key = harness_.AddKey(std::vector<float>{1});
  EXPECT_TRUE(Await(1, key, 0).empty());
  const auto answers = harness_.Push<float>(0, key, 1, {1});
  ASSERT_EQ(answers.size(), 2u);  // and the Ack
  const std::string error = ErrorOf({answers[0]}) + ErrorOf({answers[1]});
  EXPECT_THAT(error, HasSubstr("worker 1 has set the weight of key 0 before round 1"));
  EXPECT_THAT(error, HasSubstr("set it on worker 0 or on all workers"));
  EXPECT_THAT(ErrorOf(Await(1, key, 0)), error) << "worker 0 has pushed";
  harness_.Push<float>(1, key, 1, {2});
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(3)) << "the round goes on";
}

// Worker 0 is two rounds ahead.
TEST_F(ShardSet, AWaitForALaterRoundIsDecidedWhenItIsTheNext) {
  const uint32_t key = harness_.AddKey(std::vector<float>{1});
  for (const uint64_t round : {1, 2}) harness_.Push<float>(0, key, round, {1});
  EXPECT_TRUE(Await(1, key, 1).empty());
  const auto answers = harness_.Push<float>(1, key, 1, {1});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(ErrorOf({answers[0]}) + ErrorOf({answers[1]}), HasSubstr("before round 2"));
}

TEST_F(ShardSet, AsyncCountsHowOftenItWasSet) {
  ASSERT_TRUE(harness_.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness_.AddKey(std::vector<float>{1}, kAsync);
  EXPECT_TRUE(Await(1, key, 1).empty());
  harness_.Push<float>(0, key, 1, {1});  // says nothing of what worker 0 does later
  EXPECT_EQ(Set(key, 1, {7}).size(), 2u);
  EXPECT_TRUE(Await(1, key, 2).empty());
  const auto words = harness_.RunFor(1s);
  ASSERT_FALSE(words.empty());
  EXPECT_EQ(words[0].As<wire::StillWaiting>().missing,
            "worker 0 to set it as well (set a weight on worker 0 or on all workers)");
  harness_.Push<float>(1, key, 1, {1});
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(8));
  EXPECT_EQ(Set(key, 1, {20}).size(), 2u);
}

}  // namespace
}  // namespace sluice::testing
