// Operations on several keys.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientSmallKeys : public ClientHarness {
 protected:
  static constexpr size_t kKeys = 3, kElements = 2;  // keys 0 and 1 on shard 0, key 2 on shard 1

  ClientSmallKeys() {
    for (uint32_t key = 0; key < kKeys; ++key) AddKey(EntryOf(key, {key / 2}, kElements));
  }

  void SmallKeyBatch(worker::OpKind kind, std::vector<uint32_t> keys, Outcome* outcome,
                     Time deadline = Time::max()) {
    auto op = worker::NewOperation(HeapAllocator(), kind);
    std::vector<float> gradients;
    for (const uint32_t key : keys) {
      worker::Destination destination;
      if (kind != worker::OpKind::kPush) destination = Into(&weights_[key]);
      op->keys.push_back({.key = key, .round = 0, .destination = std::move(destination)});
      landed_[key] = {};
      op->keys.back().callback = landed_[key].Record();
      gradients.insert(gradients.end(), kElements, static_cast<float>(key + 1));
    }
    if (kind != worker::OpKind::kPull) op->source = FrameOf(gradients);
    op->deadline = deadline;
    op->done = outcome->Record();
    client.Submit(now, std::move(op), network);
  }
  static std::vector<float> Floats(const Frame& frame) {
    std::vector<float> values(frame.size() / sizeof(float));
    std::memcpy(values.data(), frame.data(), frame.size());
    return values;
  }
  void Reject(const Sent& request, const std::string& why) {
    FromShard(ShardOf(request), request.message.id, wire::ErrorReply{ErrorCode::kInvalidArgument, why});
  }

  std::vector<float> weights_[kKeys] = {std::vector<float>(kElements), std::vector<float>(kElements),
                                        std::vector<float>(kElements)};
  Outcome outcome_, other_, third_;
  Outcome landed_[kKeys];  // the last batch's
};

TEST_F(ClientSmallKeys, KeysOfAShardShareAMessage) {
  SmallKeyBatch(worker::OpKind::kPushPull, {0, 1, 2}, &outcome_);
  const auto pushes = ToShards();
  ASSERT_THAT(pushes, SizeIs(2));
  EXPECT_THAT(pushes[0].As<wire::Push>().parts,
              ElementsAre(wire::PushPart{{0, 0}, 1, true}, wire::PushPart{{1, 0}, 1, true}));
  EXPECT_THAT(pushes[1].As<wire::Push>().parts, ElementsAre(wire::PushPart{{2, 0}, 1, true}));
  EXPECT_THAT(Floats(pushes[0].message.payload[0]), Each(1));
  EXPECT_THAT(Floats(pushes[0].message.payload[1]), Each(2));
  EXPECT_THAT(Floats(pushes[1].message.payload[0]), Each(3));
  Answer(pushes[0], {1, 0}, 1, 20, kElements);
  Answer(pushes[1], {2, 0}, 1, 30, kElements);
  EXPECT_EQ(outcome_.calls, 0);
  EXPECT_EQ(landed_[0].calls, 0);
  EXPECT_TRUE(landed_[1].Succeeded()) << "each key by itself";
  EXPECT_TRUE(landed_[2].Succeeded());
  Answer(pushes[0], {0, 0}, 1, 10, kElements);
  EXPECT_TRUE(landed_[0].Succeeded());
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_THAT(weights_[0], Each(10));
  EXPECT_THAT(weights_[1], Each(20));
  EXPECT_THAT(weights_[2], Each(30));
}

TEST_F(ClientSmallKeys, RoundsGoOnFromWhereEachKeyIs) {
  Push(1, FrameOf({5, 5}), &other_);
  Ack(ToShards().at(0));
  SmallKeyBatch(worker::OpKind::kPush, {0, 1}, &outcome_);
  const auto push = ToShards();
  EXPECT_THAT(push.at(0).As<wire::Push>().parts,
              ElementsAre(wire::PushPart{{0, 0}, 1, false}, wire::PushPart{{1, 0}, 2, false}));
  Ack(push[0]);
  EXPECT_TRUE(outcome_.Succeeded());
  SmallKeyBatch(worker::OpKind::kPull, {0, 1}, &third_);
  const auto pull = ToShards();
  EXPECT_THAT(pull.at(0).As<wire::Pull>().parts,
              ElementsAre(wire::PullPart{{0, 0}, 0, 1}, wire::PullPart{{1, 0}, 0, 2}));
  FromShard(0, pull[0].message.id, wire::Values{true, {{{0, 0}, 0, 1}, {{1, 0}, 0, 2}}},
            {FrameOf({7, 7}), FrameOf({8, 8})});
  EXPECT_TRUE(third_.Succeeded());
  EXPECT_THAT(weights_[1], Each(8));
}

// A push waits until the pull before it has been answered, whatever else is in its batch.
TEST_F(ClientSmallKeys, EachKeyKeepsItsOrder) {
  std::vector<float> weight(kElements);
  Pull(1, &weight, &other_);
  const auto pull = ToShards();
  SmallKeyBatch(worker::OpKind::kPush, {0, 1}, &outcome_);
  const auto first = ToShards();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(first[0].As<wire::Push>().parts, ElementsAre(wire::PushPart{{0, 0}, 1, false}));
  Ack(first[0]);
  EXPECT_EQ(outcome_.calls, 0);
  Answer(pull.at(0), {1, 0}, 0, 4, kElements);
  const auto second = ToShards();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_THAT(second[0].As<wire::Push>().parts, ElementsAre(wire::PushPart{{1, 0}, 1, false}));
  EXPECT_THAT(Floats(second[0].message.payload[0]), Each(2));
  Ack(second[0]);
  EXPECT_TRUE(outcome_.Succeeded());
}

TEST_F(ClientSmallKeys, WhatIsRefusedOfOneKeyLeavesTheOthersTheirRounds) {
  SmallKeyBatch(worker::OpKind::kPushPull, {0, 1, 2}, &outcome_);
  const auto together = ToShards();
  Reject(together.at(0), "one of them does not fit");
  const auto alone = ToShards();
  ASSERT_THAT(alone, SizeIs(2));
  EXPECT_THAT(alone[0].As<wire::Push>().parts, ElementsAre(wire::PushPart{{0, 0}, 1, true}));
  EXPECT_THAT(alone[1].As<wire::Push>().parts, ElementsAre(wire::PushPart{{1, 0}, 1, true}));
  EXPECT_THAT(Floats(alone[1].message.payload[0]), Each(2));
  Reject(alone[0], "key0 does not fit");
  EXPECT_EQ(outcome_.calls, 0);  // others may still write to their arrays
  Answer(together[1], {2, 0}, 1, 30, kElements);
  RunFor(kResend);
  const auto again = ToShards();  // what is lost is repeated as ever
  ASSERT_THAT(again, SizeIs(1));
  Answer(again[0], {1, 0}, 1, 20, kElements);
  EXPECT_THAT(outcome_.Error(), HasSubstr("key0 does not fit"));
  EXPECT_THAT(landed_[0].Error(), HasSubstr("key0 does not fit"));
  EXPECT_TRUE(landed_[1].Succeeded());
  EXPECT_TRUE(landed_[2].Succeeded());
  EXPECT_THAT(weights_[1], Each(20));
  EXPECT_THAT(weights_[2], Each(30));

  // The refused round will never close; the others' next ones do.
  SmallKeyBatch(worker::OpKind::kPushPull, {0, 1}, &other_);
  const auto next = ToShards();
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_THAT(next[0].As<wire::Push>().parts, ElementsAre(wire::PushPart{{1, 0}, 2, true}));
  EXPECT_THAT(Floats(next[0].message.payload[0]), Each(2));
  Answer(next[0], {1, 0}, 2, 21, kElements);
  EXPECT_THAT(other_.Error(), HasSubstr("round 1 cannot close, its push has failed: key0 does not fit"));
  EXPECT_THAT(weights_[1], Each(21));
}

// Refused by itself, a key takes those of its operations with it that wait in batches.
TEST_F(ClientSmallKeys, ARefusedRoundEndsWhatWaitsForItInABatch) {
  Push(0, FrameOf({1, 1}), &other_);
  const auto push = ToShards();
  SmallKeyBatch(worker::OpKind::kPull, {0, 1}, &outcome_);
  const auto pull = ToShards();
  Reject(push.at(0), "does not fit");
  EXPECT_EQ(outcome_.calls, 0);
  Answer(pull.at(0), {1, 0}, 0, 6, kElements);
  EXPECT_THAT(outcome_.Error(), HasSubstr("round 1 cannot close"));
  EXPECT_THAT(weights_[1], Each(6));
}

TEST_F(ClientSmallKeys, AfterItsDeadlineThePushesGoOn) {
  SmallKeyBatch(worker::OpKind::kPushPull, {0, 1, 2}, &outcome_, now + 5s);
  const auto pushes = ToShards();
  Ack(pushes.at(0));
  RunFor(5s);
  EXPECT_THAT(outcome_.Error(), AllOf(HasSubstr("push_pull of keys key0, key1, key2, round 1"),
                                      HasSubstr("waiting for server 0 to answer")));
  network.Take();
  RunFor(4 * kResend);
  const auto again = ToShards();  // the one that nobody has acknowledged
  ASSERT_FALSE(again.empty());
  for (const Sent& push : again)
    EXPECT_THAT(push.As<wire::Push>().parts, ElementsAre(wire::PushPart{{2, 0}, 1, false}));
  EXPECT_THAT(Floats(again[0].message.payload[0]), Each(3));
  Ack(again[0]);
  RunFor(8 * kResend);
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientSmallKeys, NamesAFewOfManyKeys) {
  for (uint32_t key = kKeys; key < 6; ++key) AddKey(EntryOf(key, {0}, kElements));
  auto op = PushOf(0, FrameOf(std::vector<float>(12)), outcome_.Record());
  for (uint32_t key = 1; key < 6; ++key) op->keys.push_back({.key = key, .round = 0, .destination = {}});
  client.Submit(now, std::move(op), network);
  EXPECT_THAT(client.DumpState(now),
              HasSubstr("push of keys key0, key1, key2, 3 more, round 1: 6 parts left"));
}

TEST_F(ClientSmallKeys, AKeyThatDoesNotFitFailsAloneOfItsBatch) {
  std::vector<float> short_one(1);
  auto op = PullOf(0, Into(&short_one), outcome_.Record());
  op->keys.push_back({.key = 1, .round = 0, .destination = Into(&weights_[1])});
  client.Submit(now, std::move(op), network);
  const auto pull = ToShards();
  ASSERT_THAT(pull, SizeIs(1));
  Answer(pull[0], {1, 0}, 0, 5, kElements);
  EXPECT_THAT(outcome_.Error(), HasSubstr("pull of key key0: 4 bytes were given, the key has 8"));
  EXPECT_THAT(weights_[1], Each(5));
}

TEST_F(ClientSmallKeys, EndsWithTheJob) {
  SmallKeyBatch(worker::OpKind::kPushPull, {0, 1, 2}, &outcome_);
  FromScheduler(wire::Stop{wire::Stop::Reason::kFailed, "worker 1 died"});
  EXPECT_THAT(outcome_.Error(), HasSubstr("worker 1 died"));
  for (const Outcome& landed : landed_) EXPECT_THAT(landed.Error(), HasSubstr("worker 1 died"));
  SmallKeyBatch(worker::OpKind::kPush, {0, 1}, &other_);
  EXPECT_THAT(other_.Error(), HasSubstr("worker 1 died"));
}

}  // namespace
}  // namespace sluice::testing
