// Who is answered, when, and with which weight.
#include <gmock/gmock.h>

#include <set>

#include "base/strings.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardReply, AHeldReplyNeverChanges) {
  ShardHarness harness(1);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>{0, 0});
  std::vector<Frame> held;
  for (uint64_t round = 1; round <= 5; ++round) {
    auto answers = harness.Push<float>(0, key, round, {1, 2}, {.want_value = true});
    held.push_back(answers.at(0).message.payload[0]);
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto round = static_cast<float>(i + 1);
    EXPECT_THAT(ValuesOf<float>(held[i]), ElementsAre(round, 2 * round));
  }
}

TEST(ShardReply, AReplySharesTheWeightsMemory) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0, 0});
  const auto first = harness.Pull(0, key, 0), second = harness.Pull(1, key, 0);
  EXPECT_EQ(first.at(0).message.payload[0].data(), second.at(0).message.payload[0].data());
}

TEST(ShardReply, WhenThePushClosesTheRoundValuesAloneAnswer) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, 1, {1}, {.want_value = true})));
  const uint64_t waits = harness.last_id;
  const auto answers = harness.Push<float>(1, key, 1, {2}, {.want_value = true});
  ASSERT_EQ(answers.size(), 2u);
  for (const Sent& sent : answers) {
    ASSERT_TRUE(sent.Is<wire::Values>());
    const bool first = sent.to == ShardHarness::PeerOf(0);
    EXPECT_EQ(sent.message.in_reply_to, first ? waits : harness.last_id);
    EXPECT_EQ(sent.As<wire::Values>().parts, (wire::PartList<wire::ValuePart>{{{key, 0}, 0, 1}}));
    EXPECT_THAT(ValuesOf<float>(sent.message.payload[0]), ElementsAre(3));
  }
}

TEST(ShardReply, ARepeatedPushThatWantsItsValueGetsItAgain) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {4}, {.want_value = true});
  const auto again = harness.Push<float>(0, key, 1, {4}, {.want_value = true});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_THAT(harness.Join<float>(again), ElementsAre(4));
  EXPECT_THAT(harness.Versions(key), ElementsAre(1));
}

TEST(ShardReply, AnswersCarryTheServersIdentity) {
  ShardHarness harness(1, {.job = 6, .incarnation = 44});
  harness.SetMembership(9);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  const auto answers = harness.Pull(0, key, 0);
  EXPECT_EQ(answers.at(0).message.job, 6u);
  EXPECT_EQ(answers.at(0).message.sender, (wire::Sender{wire::Role::kServer, 0, 44}));
  EXPECT_EQ(answers.at(0).message.epoch, 9u);
}

TEST(ShardReply, WhoWaitsHearsForWhomBeforeItAsksAgain) {
  ShardHarness harness(3);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  EXPECT_TRUE(harness.Pull(0, key, 1).empty());
  const uint64_t request = harness.last_id;
  EXPECT_TRUE(harness.RunFor(99ms).empty());
  const auto first = harness.RunFor(1ms);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].to, ShardHarness::PeerOf(0));
  EXPECT_EQ(first[0].message.in_reply_to, request);
  EXPECT_EQ(first[0].As<wire::StillWaiting>(), (wire::StillWaiting{"0", "worker 1, worker 2"}));
  EXPECT_TRUE(OnlyAck(harness.Push<float>(1, key, 1, {1})));
  EXPECT_EQ(harness.RunFor(200ms).at(0).As<wire::StillWaiting>().missing, "worker 2");
  EXPECT_EQ(harness.Push<float>(2, key, 1, {1}).size(), 2u);  // the value, and worker 2's Ack
  EXPECT_TRUE(harness.RunFor(60s).empty());
  EXPECT_EQ(harness.shard.NextTimer(), Time::max());
}

TEST(ShardReply, APushThatWantsItsValueHearsToo) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(1, key, 1, {1}, {.want_value = true});
  EXPECT_EQ(harness.RunFor(100ms).at(0).As<wire::StillWaiting>().missing, "worker 0");
}

TEST(ShardReply, WhoWaitsLongHearsRarely) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1}, {.want_value = true});
  EXPECT_EQ(harness.RunFor(1500ms).size(), 4u);  // at 0.1, 0.3, 0.7 and 1.5 s
  EXPECT_EQ(harness.RunFor(100s).size(), 50u);   // then every 2 s
}

TEST(ShardReply, RoundsThatCloseSoonCostNoWord) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  for (uint64_t round = 1; round <= 100; ++round) {
    EXPECT_TRUE(OnlyAck(harness.Push<float>(0, key, round, {1}, {.want_value = true})));
    EXPECT_TRUE(harness.RunFor(90ms).empty());
    EXPECT_EQ(harness.Push<float>(1, key, round, {1}, {.want_value = true}).size(), 2u);
  }
}

TEST(ShardReply, ARepeatNeitherBringsAWordNorPutsItOff) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  for (int repeat = 0; repeat < 10; ++repeat) {
    wire::Message pull;
    pull.sender = {wire::Role::kWorker, 0, 1000};
    pull.id = 77;
    pull.body = wire::Pull{.parts = {{{key, 0}, 0, 1}}};
    EXPECT_TRUE(harness.DeliverRaw(ShardHarness::PeerOf(0), pull).empty());
    EXPECT_EQ(harness.RunFor(10ms).size(), repeat == 9 ? 1u : 0u);
  }
}

TEST(ShardReply, OneWordForAllPartsOfAKey) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>(64), wire::SyncMode::kSync, 4);
  harness.Push<float>(0, key, 1, std::vector<float>(64), {.want_value = true});
  EXPECT_EQ(harness.RunFor(100ms).size(), 1u);
}

TEST(ShardReply, OnePendingRequestPerWorkerAndSlot) {
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(std::vector<float>{0});
  harness.Push<float>(0, key, 1, {1});
  for (int repeat = 0; repeat < 5; ++repeat) harness.Pull(0, key, 1);
  const uint64_t newest = harness.last_id;
  std::vector<Sent> closing = harness.Push<float>(1, key, 1, {1});
  std::erase_if(closing, [](const Sent& sent) { return sent.Is<wire::Ack>(); });
  ASSERT_EQ(closing.size(), 1u);
  EXPECT_EQ(closing[0].message.in_reply_to, newest);
}

TEST(ShardReply, BeforeInitAPullWaitsForIt) {
  ShardHarness harness(2);
  const auto entry = ShardHarness::EntryOf(0, DType::kFloat32, 2, wire::SyncMode::kSync, 64);
  ASSERT_TRUE(harness.shard.AddKeys({entry}).ok());
  const wire::Pull pull{.want = wire::Pull::Want::kVersion, .parts = {{{0, 0}, 0, 0}}};
  EXPECT_TRUE(harness.Deliver(1, pull).empty());
  EXPECT_THAT(harness.RunFor(100ms).at(0).As<wire::StillWaiting>().missing, HasSubstr("worker 0"));
  const Frame value = FrameOf(std::vector<float>{3, 4});
  const auto answers = harness.Deliver(0, wire::Store{.parts = {{.ref = {0, 0}}}}, {value});
  ASSERT_EQ(answers.size(), 2u);  // worker 0's Ack, worker 1's version
  for (const Sent& sent : answers) {
    if (sent.to == ShardHarness::PeerOf(0)) {
      EXPECT_TRUE(sent.Is<wire::Ack>());
      continue;
    }
    EXPECT_FALSE(sent.As<wire::Values>().has_data);
    EXPECT_EQ(sent.As<wire::Values>().parts[0].version, 0u);
    EXPECT_TRUE(sent.message.payload.empty());
  }
}

// Else each of 2^32 would be one more pending request.
TEST(ShardReply, NoVersionIsWaitedForOfAStateThatThereIsNot) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{3, 4});
  EXPECT_TRUE(harness.Pull(0, key, 7, 1, wire::Pull::Want::kVersion).empty()) << "it waits";
  for (const uint32_t slot : {2u, 1000u, UINT32_MAX}) {
    EXPECT_THAT(ErrorOf(harness.Pull(0, key, 7, slot, wire::Pull::Want::kVersion)),
                HasSubstr(StrCat("state ", slot, " was asked for")));
  }
}

TEST(ShardReply, OnlyTheFirstInitCounts) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>{3, 4});
  const Frame other = FrameOf(std::vector<float>{8, 8});
  EXPECT_TRUE(OnlyAck(harness.Deliver(0, wire::Store{.parts = {{.ref = {key, 0}}}}, {other})));
  EXPECT_THAT(harness.Weight<float>(key), ElementsAre(3, 4));
  EXPECT_THAT(ErrorOf(harness.Deliver(0, wire::Store{.parts = {{.ref = {key, 0}}}}, {other.Slice(0, 4)})),
              HasSubstr("4 bytes"));
}

TEST(ShardReply, SmallValuesOfOneRequestShareAMessageLargeOnesDoNot) {
  ShardHarness harness(1);
  const uint32_t small = harness.AddKey(std::vector<float>(16 * 64), wire::SyncMode::kSync, 64);
  EXPECT_EQ(harness.Pull(0, small, 0).size(), 1u);
  constexpr size_t kElements = server::ReplyBatcher::kMostMessageBytes / sizeof(float);
  const uint32_t large = harness.AddKey(std::vector<float>(3 * kElements), wire::SyncMode::kSync, kElements);
  EXPECT_EQ(harness.Pull(0, large, 0).size(), 3u);
  const uint32_t halves =
      harness.AddKey(std::vector<float>(2 * kElements), wire::SyncMode::kSync, kElements / 2);
  EXPECT_EQ(harness.Pull(0, halves, 0).size(), 2u);
}

TEST(ShardReply, AMessageNeverHoldsMoreFramesThanItMay) {
  ShardHarness harness(1);
  constexpr size_t kParts = server::ReplyBatcher::kMaxFrames + 10;
  const uint32_t key = harness.AddKey(std::vector<uint8_t>(kParts), wire::SyncMode::kSync, 1);
  const auto answers = harness.Pull(0, key, 0);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].message.payload.size() + answers[1].message.payload.size(), kParts);
}

TEST(ShardReply, WorkerZeroIsNotToldThatItWaitsForItself) {
  ShardHarness harness(2);
  ASSERT_TRUE(
      harness.shard.AddKeys({ShardHarness::EntryOf(0, DType::kFloat32, 1, wire::SyncMode::kSync, 1)}).ok());
  const wire::Pull version{wire::Pull::Want::kVersion, {{{0, 0}}}};
  for (const uint32_t worker : {0, 1}) harness.Deliver(worker, version);
  const std::vector<Sent> words = harness.RunFor(200ms);
  ASSERT_FALSE(words.empty());
  for (const Sent& word : words) {
    EXPECT_EQ(word.to, ShardHarness::PeerOf(1));
    EXPECT_EQ(word.As<wire::StillWaiting>().missing, "worker 0 to initialise the key");
  }
}

TEST(ShardReply, OnePassOverAllKeysServesManyRequests) {
  constexpr size_t kRequests = 1000;
  ShardHarness harness(2);
  std::vector<uint32_t> keys;
  for (size_t i = 0; i < kRequests; ++i) keys.push_back(harness.AddKey(std::vector<float>{1}));
  for (const uint32_t key : keys) {  // each at a time of its own
    harness.now += 10us;
    harness.Pull(1, key, 1);
  }
  const Time end = harness.now + 600ms;
  int passes = 0;
  for (; harness.shard.NextTimer() <= end; ++passes) {
    harness.now = std::max(harness.now, harness.shard.NextTimer());
    harness.shard.OnTimer(harness.now, harness.network);
  }
  EXPECT_LE(passes, 10);
  std::set<uint64_t> told;
  for (const Sent& sent : harness.network.Take())
    if (sent.Is<wire::StillWaiting>()) told.insert(sent.message.in_reply_to);
  EXPECT_EQ(told.size(), kRequests);
}

}  // namespace
}  // namespace sluice::testing
