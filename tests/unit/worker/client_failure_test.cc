// Lost, repeated, late and wrong answers; deadlines; errors; the end of the job.
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

class ClientFailure : public ClientHarness {
 protected:
  ClientFailure() {
    AddKey(EntryOf(0, {0}, 2));
    AddKey(EntryOf(1, {1}, 2));
  }
  std::vector<float> weight_ = {-1, -1}, other_ = {-1, -1};
  Outcome outcome_, second_;
  const Frame gradient_ = FrameOf({1, 2});
};

TEST_F(ClientFailure, AnUnansweredPushIsRepeatedWithItsIdAndGrowingPauses) {
  Push(0, gradient_, &outcome_);
  const auto first = ToShards();
  ASSERT_THAT(first, SizeIs(1));
  for (const int pause : {1, 2, 4, 8, 8, 8}) {
    RunFor(kResend * pause - 1ms);
    EXPECT_THAT(ToShards(), IsEmpty()) << pause;
    RunFor(1ms);
    const auto again = ToShards();
    ASSERT_THAT(again, SizeIs(1)) << pause;
    EXPECT_EQ(again[0].message.id, first[0].message.id);
    EXPECT_EQ(again[0].As<wire::Push>(), first[0].As<wire::Push>());
    EXPECT_EQ(again[0].message.payload[0].data(), gradient_.data());
  }
  Ack(first[0]);
  EXPECT_TRUE(outcome_.Succeeded());
  RunFor(60s);
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFailure, OnlyWhatIsUnansweredIsRepeated) {
  AddKey(EntryOf(2, {0}, 2));
  Pull(0, &weight_, &outcome_);
  const auto sent = ToShards();
  Pull(2, &other_, &second_);
  ToShards();
  Answer(sent.at(0), {0, 0}, 0, 5, 2);
  RunFor(kResend);
  const auto again = ToShards();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].As<wire::Pull>().parts[0].ref.key, 2u);
}

TEST_F(ClientFailure, AnAcknowledgedPushPullGoesOnAsAPullWithoutBytes) {
  PushPull(0, gradient_, &weight_, &outcome_);
  const auto push = ToShards();
  Ack(push.at(0));
  EXPECT_EQ(outcome_.calls, 0);
  RunFor(kResend);
  const auto pull = ToShards();
  ASSERT_THAT(pull, SizeIs(1));
  EXPECT_EQ(pull[0].message.id, push[0].message.id);
  EXPECT_EQ(pull[0].As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kValue, {{{0, 0}, 0, 1}}}));
  EXPECT_THAT(pull[0].message.payload, IsEmpty());
  Answer(pull[0], {0, 0}, 1, 6, 2);
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_THAT(weight_, Each(6));
}

TEST_F(ClientFailure, AnAnswerThatComesTwiceIsTakenOnce) {
  Push(0, gradient_, &outcome_);
  const auto push = ToShards();
  Ack(push.at(0));
  Ack(push[0]);
  EXPECT_TRUE(outcome_.Succeeded());
  Pull(0, &weight_, &second_);
  const auto pull = ToShards();
  Answer(pull.at(0), {0, 0}, 1, 3, 2);
  weight_ = {-1, -1};  // the caller's again
  Answer(pull[0], {0, 0}, 1, 4, 2);
  EXPECT_TRUE(second_.Succeeded());
  EXPECT_THAT(weight_, Each(-1));
}

// The window must not be paid back twice, or it would grow with every repeated answer.
TEST_F(ClientFailure, ARepeatedAnswerMakesNoRoom) {
  for (uint32_t key = 2; key < 6; ++key) AddKey(EntryOf(key, {0}, kWindow / 8));
  const Frame half = FrameOf(std::vector<float>(kWindow / 8));
  Outcome outcomes[4];
  for (uint32_t key = 2; key < 5; ++key) Push(key, half, &outcomes[key - 2]);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  Ack(sent[0]);
  EXPECT_THAT(ToShards(), SizeIs(1));
  Ack(sent[0]);
  Push(5, half, &outcomes[3]);
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFailure, AValueOfAnOlderRoundAnswersNothing) {
  Push(0, gradient_, &outcome_);
  Ack(ToShards().at(0));
  Pull(0, &weight_, &second_);
  const auto pull = ToShards();
  Answer(pull.at(0), {0, 0}, 0, 9, 2);
  EXPECT_EQ(second_.calls, 0);
  Answer(pull[0], {0, 0}, 1, 4, 2);
  EXPECT_TRUE(second_.Succeeded());
  EXPECT_THAT(weight_, Each(4));
}

// What names no round has no other sign of age: the shard was asked before the second question came up.
TEST_F(ClientFailure, ALateAnswerToAnEarlierQuestionIsNotTheLatest) {
  Pull(0, &weight_, &outcome_, Time::max(), /*latest=*/true);
  const auto first = ToShards();
  Answer(first.at(0), {0, 0}, 3, 3, 2);
  Pull(0, &other_, &second_, Time::max(), /*latest=*/true);
  const auto second = ToShards();
  Answer(first[0], {0, 0}, 3, 3, 2);
  EXPECT_EQ(second_.calls, 0);
  Answer(second.at(0), {0, 0}, 5, 5, 2);
  EXPECT_TRUE(second_.Succeeded());
  EXPECT_THAT(other_, Each(5));
}

TEST_F(ClientFailure, ValuesThatDoNotFitAreNotTaken) {
  Pull(0, &weight_, &outcome_);
  const auto pull = ToShards();
  Answer(pull.at(0), {0, 0}, 0, 9, 3);           // too long
  Answer(pull[0], {0, 1}, 0, 9, 2);              // no such part
  Answer(pull[0], {7, 0}, 0, 9, 2);              // no such key
  Answer(pull[0], {0, 0}, 0, 9, 2, /*slot=*/1);  // a state
  AnswerVersion(pull[0], {0, 0}, 0);             // no value
  FromShard(1, pull[0].message.id, wire::Values{true, {{{0, 0}, 0, 0}}},
            {gradient_});  // another shard sends it
  EXPECT_EQ(outcome_.calls, 0);
  EXPECT_THAT(weight_, Each(-1));
  Answer(pull[0], {0, 0}, 0, 4, 2);
  EXPECT_TRUE(outcome_.Succeeded());
}

TEST_F(ClientFailure, ADeadlineNamesWhomTheShardWaitsFor) {
  Push(0, gradient_, &outcome_);
  Ack(ToShards().at(0));
  Pull(0, &weight_, &second_, now + 30s);
  FromShard(0, ToShards().at(0).message.id, wire::StillWaiting{"key0", "worker 2, worker 5"});
  RunFor(30s - 1ms);
  EXPECT_EQ(second_.calls, 0);
  RunFor(1ms);
  EXPECT_EQ(second_.status.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(second_.Error(),
              AllOf(HasSubstr("pull of key key0, round 1"), HasSubstr("waiting for worker 2, worker 5")));
}

TEST_F(ClientFailure, AWordAboutOneKeyIsNotAboutAnotherOfTheSameMessage) {
  Push(0, gradient_, &outcome_);
  Ack(ToShards().at(0));
  Pull(0, &weight_, &second_, now + 30s);
  const auto pull = ToShards();
  FromShard(0, pull.at(0).message.id, wire::StillWaiting{"key9", "worker 7"});
  EXPECT_THAT(client.DumpState(now),
              AllOf(HasSubstr("waiting for server 0 to answer"), Not(HasSubstr("worker 7"))));
}

TEST_F(ClientFailure, EveryOperationEndsAtItsOwnDeadline) {
  Pull(0, &weight_, &outcome_, now + 30s);
  Pull(1, &other_, &second_, now + 40s);
  RunFor(30s);
  EXPECT_EQ(outcome_.calls, 1);
  EXPECT_EQ(second_.calls, 0);
  RunFor(10s);
  EXPECT_EQ(second_.calls, 1);
}

TEST_F(ClientFailure, ADeadlineWithoutAWordFromTheShardSaysSo) {
  PushPull(0, gradient_, &weight_, &outcome_, now + 5s);
  RunFor(5s);
  EXPECT_THAT(outcome_.Error(), AllOf(HasSubstr("push_pull of key key0, round 1"),
                                      HasSubstr("waiting for server 0 to answer")));
}

TEST_F(ClientFailure, WhatWaitsBehindOthersSaysForWhomTheyWait) {
  Pull(0, &weight_, &outcome_, now + 30s);
  PushPull(0, gradient_, &other_, &second_, now + 5s);  // not before that pull has been answered
  RunFor(5s);
  EXPECT_THAT(second_.Error(),
              HasSubstr("waiting for earlier operations, which wait for server 0 to answer"));
}

TEST_F(ClientFailure, StatesDoNotWaitForEver) {
  client.Submit(now, StateOf(0, 1, 3, FrameOf({1, 2}), outcome_.Record(), now + 10s), network);
  auto pull = worker::NewPullUpdates(HeapAllocator(), 1, [&](const Result<uint64_t>& updates) {
    second_.Record()(Status(updates.failure()));
  });
  pull->deadline = now + 20s;
  client.Submit(now, std::move(pull), network);
  RunFor(15s);
  EXPECT_EQ(outcome_.status.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(second_.calls, 0);
  RunFor(6s);
  EXPECT_EQ(second_.status.failure().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(ClientFailure, AfterADeadlineLateAnswersLandNowhereAndTheKeyGoesOn) {
  PushPull(0, gradient_, &weight_, &outcome_, now + 5s);
  const auto late = ToShards();
  RunFor(5s);
  EXPECT_EQ(outcome_.calls, 1);
  Answer(late.at(0), {0, 0}, 1, 9, 2);
  EXPECT_THAT(weight_, Each(-1));
  PushPull(0, gradient_, &other_, &second_);
  const auto sent = ToShards();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().As<wire::Push>().parts[0].round, 2u);
  Answer(sent.back(), {0, 0}, 2, 4, 2);
  EXPECT_TRUE(second_.Succeeded());
  EXPECT_EQ(outcome_.calls, 1);
}

TEST_F(ClientFailure, APushWhoseAnswerIsGivenUpStillArrives) {
  std::vector<float> values = {1, 2};
  PushPull(0, Frame(std::as_bytes(std::span(values)), nullptr), &weight_, &outcome_, now + 5s);
  RunFor(5s);
  EXPECT_EQ(outcome_.status.failure().code, ErrorCode::kDeadlineExceeded);
  ToShards();               // all of them lost
  values.assign({77, 77});  // the caller has its array back
  RunFor(60s);
  const auto sent = ToShards();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.front().As<wire::Push>().parts, (wire::PartList<wire::PushPart>{{{0, 0}, 1, false}}));
  EXPECT_TRUE(std::ranges::equal(sent.front().message.payload[0].bytes(), gradient_.bytes()));
  Ack(sent.front());
  RunFor(60s);
  EXPECT_THAT(ToShards(), IsEmpty());
  EXPECT_EQ(outcome_.calls, 1);
}

TEST_F(ClientFailure, ARefusedMessageIsSentAgainOperationByOperation) {
  AddKey(EntryOf(2, {0}, kWindow / 4));
  for (uint32_t key = 3; key <= 5; ++key) AddKey(EntryOf(key, {0}, 2));
  Outcome large, good, bad, also_good;
  Push(2, FrameOf(std::vector<float>(kWindow / 4)), &large);  // fills the window: the others go together
  const auto first = ToShards();
  Push(3, gradient_, &good);
  Push(4, gradient_, &bad);
  Push(5, gradient_, &also_good);
  Ack(first.at(0));
  const auto together = ToShards();
  ASSERT_THAT(together, SizeIs(1));
  const wire::ErrorReply error{ErrorCode::kInvalidArgument, "key key4: too bad"};
  FromShard(0, together[0].message.id, error);
  const auto alone = ToShards();
  ASSERT_THAT(alone, SizeIs(3));
  Ack(alone[0]);
  FromShard(0, alone[1].message.id, error);
  Ack(alone[2]);
  EXPECT_TRUE(good.Succeeded());
  EXPECT_THAT(bad.Error(), HasSubstr("key key4: too bad"));
  EXPECT_TRUE(also_good.Succeeded());
  RunFor(60s);
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFailure, ABarriersDeadlineNamesWhoIsMissing) {
  client.requests().Barrier(now, {.id = "b7"}, now + 10s, outcome_.Record(), network);
  const Sent barrier = ToScheduler();
  FromScheduler(wire::StillWaiting{"b7", "worker 1"}, barrier.message.id);
  RunFor(1s);
  const Sent again = ToScheduler();
  EXPECT_EQ(again.message.id, barrier.message.id);
  EXPECT_EQ(again.As<wire::Barrier>(), barrier.As<wire::Barrier>());
  RunFor(9s);
  EXPECT_EQ(outcome_.status.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(outcome_.Error(), AllOf(HasSubstr("barrier 'b7'"), HasSubstr("waiting for worker 1")));
}

TEST_F(ClientFailure, AShardsErrorEndsItsOperationWithItsCauseAndNoOther) {
  Pull(0, &weight_, &outcome_);
  Pull(1, &other_, &second_);
  const auto sent = ToShards();
  FromShard(0, sent.at(0).message.id,
            wire::ErrorReply{ErrorCode::kInvalidArgument, "key key0: no such slot"});
  EXPECT_EQ(outcome_.status.failure().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(outcome_.Error(), HasSubstr("key key0: no such slot"));
  Answer(sent.at(1), {1, 0}, 0, 4, 2);
  EXPECT_TRUE(second_.Succeeded());
  RunFor(60s);
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFailure, TheSchedulersErrorReachesInit) {
  std::optional<Failure> failure;
  client.Init(
      now, wire::SyncMode::kSync, {{EntryOf(9, {0}, 1).spec, FrameOf({1})}}, Time::max(),
      [&](const auto& result) { failure = result.failure(); }, network);
  FromScheduler(wire::ErrorReply{ErrorCode::kAlreadyExists, "key9 is float64 [1] of worker 1"},
                ToScheduler().message.id);
  EXPECT_EQ(failure, (Failure{ErrorCode::kAlreadyExists, "key9 is float64 [1] of worker 1"}));
}

TEST_F(ClientFailure, AnUnsoundKeyTableIsRefused) {
  std::optional<Failure> failure;
  const auto init = [&](wire::Body answer) {
    client.Init(
        now, wire::SyncMode::kSync, {{EntryOf(9, {0}, 1).spec, FrameOf({1})}}, Time::max(),
        [&](const auto& result) { failure = result.failure(); }, network);
    FromScheduler(std::move(answer), ToScheduler().message.id);
    return std::exchange(failure, std::nullopt).value();
  };
  EXPECT_EQ(init(wire::KeyTable{}).code, ErrorCode::kDataLoss);
  EXPECT_EQ(init(wire::Ack{}).code, ErrorCode::kDataLoss);
  EXPECT_EQ(init(wire::KeyTable{{EntryOf(9, {2}, 1)}}).code, ErrorCode::kDataLoss);  // there is no shard 2
  EXPECT_EQ(client.keys().Find(9), nullptr);
}

TEST_F(ClientFailure, WhatDoesNotFitTheKeyIsRefusedWithoutAMessage) {
  Outcome unknown;
  Push(0, FrameOf({1, 2, 3}), &outcome_);
  EXPECT_THAT(outcome_.Error(),
              AllOf(HasSubstr("push of key key0"), HasSubstr("12 bytes were given, the key has 8")));
  std::vector<float> small(1);
  Pull(1, &small, &second_);
  EXPECT_THAT(second_.Error(),
              AllOf(HasSubstr("pull of key key1"), HasSubstr("4 bytes were given, the key has 8")));
  Push(7, gradient_, &unknown);
  EXPECT_EQ(unknown.status.failure().code, ErrorCode::kNotFound);
  EXPECT_THAT(ToShards(), IsEmpty());
  Outcome next;
  Push(0, gradient_, &next);
  EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].round, 1u);  // the refused one was no round
}

// Sent, it would end the connection, and be repeated, for ever.
TEST_F(ClientFailure, WhatNoFrameHoldsIsRefusedWithoutAMessage) {
  const wire::KeyEntry entry = EntryOf(9, {0}, (2 << 20) + 1);
  std::optional<Failure> failure;
  client.Init(
      now, wire::SyncMode::kSync,
      {{entry.spec, FrameOf(std::vector<float>(static_cast<size_t>(entry.part_elements)))}}, Time::max(),
      [&](const auto& result) { failure = result.failure(); }, network);
  FromScheduler(wire::KeyTable{{entry}}, ToScheduler().message.id);
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->message, AllOf(HasSubstr("key9"), HasSubstr("one of its parts takes 8388612 bytes"),
                                      HasSubstr("at most 8388608 travel in one frame")));
  for (const Sent& sent : ToShards()) EXPECT_FALSE(sent.Is<wire::Store>());
}

TEST_F(ClientFailure, AStopFailsEverythingThatIsOpenAndAllThatFollows) {
  Outcome push, pull, barrier, later_push, later_barrier, joined;
  std::optional<Failure> stats;
  Push(0, gradient_, &push);
  Pull(0, &weight_, &pull);
  client.requests().Barrier(now, {.id = "b"}, Time::max(), barrier.Record(), network);
  client.requests().GetShardStats(
      now, 1, Time::max(),
      [&](Time, transport::Network&, const Result<wire::Body>& answer) { stats = answer.failure(); },
      network);
  const auto open = ToShards();
  FromScheduler(wire::Stop{wire::Stop::Reason::kFailed, "worker 1 died"});
  for (Outcome* outcome : {&push, &pull, &barrier}) {
    EXPECT_THAT(outcome->Error(), HasSubstr("worker 1 died"));
    EXPECT_EQ(outcome->status.failure().code, ErrorCode::kUnavailable);
  }
  EXPECT_THAT(stats.value().message, HasSubstr("worker 1 died"));
  Answer(open.at(1), {0, 0}, 1, 9, 2);
  EXPECT_EQ(pull.calls, 1);
  EXPECT_THAT(weight_, Each(-1));
  Push(0, gradient_, &later_push);
  client.requests().Barrier(now, {.id = "c"}, Time::max(), later_barrier.Record(), network);
  client.session().WhenJoined(joined.Record());
  for (Outcome* outcome : {&later_push, &later_barrier, &joined})
    EXPECT_THAT(outcome->Error(), HasSubstr("worker 1 died"));
  RunFor(60s);
  EXPECT_THAT(ToShards(), IsEmpty());
  EXPECT_EQ(client.NextTimer(), Time::max());
}

TEST_F(ClientFailure, WhatTheServersOfAFailedJobWereStillToGetIsDropped) {
  FromScheduler(wire::Stop{wire::Stop::Reason::kFailed, "server 0 is dead"});
  EXPECT_THAT(network.disconnected, ElementsAre(ShardPeer(0), ShardPeer(1)));
}

TEST_F(ClientFailure, AnOrderlyStopIsACancellation) {
  Pull(0, &weight_, &outcome_);
  FromScheduler(wire::Stop{wire::Stop::Reason::kFinished, "the job is finished"});
  EXPECT_EQ(outcome_.status.failure().code, ErrorCode::kCancelled);
}

TEST_F(ClientFailure, TheStateDumpNamesWhatIsWaitedFor) {
  Push(0, gradient_, &outcome_);
  Ack(ToShards().at(0));
  Pull(0, &weight_, &second_);
  FromShard(0, ToShards().at(0).message.id, wire::StillWaiting{"key0", "worker 1"});
  EXPECT_THAT(client.DumpState(now),
              AllOf(HasSubstr("pull of key key0, round 1"), HasSubstr("waiting for worker 1"),
                    HasSubstr("1 requests unanswered")));
}

}  // namespace
}  // namespace sluice::testing
