// Weights that are set in no round: in which order they and all else of a key leave.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientSet : public ClientHarness {
 protected:
  explicit ClientSet(uint32_t rank = 0) : ClientHarness(rank) {}
  void Set(uint32_t key, const Frame& value, Outcome* outcome, Time deadline = Time::max()) {
    auto op = OperationOf(worker::OpKind::kSet, key, outcome->Record(), deadline);
    op->source = value;
    client.Submit(now, std::move(op), network);
  }
};
class ClientOneSet : public ClientSet {
 protected:
  ClientOneSet() : ClientSet(1) {}
};

const wire::Store kFirst = {wire::Store::Purpose::kWeight, {{{0, 0}, 0, 0}}};

TEST_F(ClientSet, WhatComesLaterOnTheKeyWaitsUntilTheShardHasIt) {
  AddKey(EntryOf(0, {0}, 2));
  AddKey(EntryOf(1, {0}, 2));
  Outcome set, again, pushed, other;
  std::vector<float> value(2);
  Set(0, FrameOf({5, 6}), &set);
  Set(0, FrameOf({7, 8}), &again);
  PushPull(0, FrameOf({1, 1}), &value, &pushed);
  Push(1, FrameOf({1, 1}), &other);
  const auto first = ToShards();
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].As<wire::Store>(), kFirst);
  EXPECT_EQ(first[1].As<wire::Push>().parts[0].ref.key, 1u) << "of another key nothing waits";
  EXPECT_EQ(set.calls, 0);
  Ack(first[0]);
  EXPECT_TRUE(set.Succeeded());
  const auto second = ToShards();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].As<wire::Store>(), kFirst);
  Ack(second[0]);
  EXPECT_TRUE(again.Succeeded());
  EXPECT_TRUE(ToShards().at(0).Is<wire::Push>());
}

TEST_F(ClientSet, ItGoesWhenTheRoundsBeforeHaveClosed) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome pushed, set;
  Push(0, FrameOf({1, 1}), &pushed);
  Set(0, FrameOf({5, 6}), &set);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_TRUE(sent[0].Is<wire::Push>());
  EXPECT_EQ(sent[1].As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kVersion, {{{0, 0}, 0, 1}}}));
  Ack(sent[0]);
  EXPECT_THAT(ToShards(), IsEmpty());
  AnswerVersion(sent[1], {0, 0}, 1);
  EXPECT_EQ(ToShards().at(0).As<wire::Store>(),
            (wire::Store{wire::Store::Purpose::kWeight, {{{0, 0}, 0, 1}}}));
}

TEST_F(ClientSet, ALostOneIsRepeatedBeforeAnythingElseGoes) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome set, pushed;
  Set(0, FrameOf({5, 6}), &set);
  Push(0, FrameOf({1, 1}), &pushed);
  const auto lost = ToShards();
  RunFor(kResend);
  const auto repeats = ToShards();
  ASSERT_THAT(repeats, SizeIs(1));
  EXPECT_EQ(repeats[0].As<wire::Store>(), kFirst);
  EXPECT_EQ(repeats[0].message.id, lost.at(0).message.id);
  EXPECT_THAT(repeats[0].message.payload, SizeIs(1));
}

TEST_F(ClientSet, WrongBytesAreAnErrorOfTheCall) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome set;
  Set(0, FrameOf({5}), &set);
  EXPECT_EQ(set.Error(), "set of key key0: 4 bytes were given, the key has 8");
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientOneSet, AnotherWorkersWaitsForWorkerZero) {
  AddKey(EntryOf(0, {0, 1}, 2));
  Outcome set, pushed;
  Set(0, {}, &set);
  Push(0, FrameOf({1, 1, 1, 1}), &pushed);
  const auto asked = ToShards();
  ASSERT_THAT(asked, SizeIs(2));
  for (const Sent& ask : asked) {
    const wire::PartRef ref = ask.As<wire::Pull>().parts[0].ref;
    EXPECT_EQ(ask.As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kSet, {{ref, 0, 0}}}));
    AnswerVersion(ask, ref, 0);
    EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].ref, ref);
  }
  EXPECT_TRUE(set.Succeeded());
}

TEST_F(ClientOneSet, AVersionThatComesForAnotherQuestionIsNoAnswer) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome pulled, set;
  std::vector<float> value(2);
  Pull(0, &value, &pulled);
  const auto pull = ToShards();
  Answer(pull.at(0), {0, 0}, 0, 1, 2);
  Set(0, {}, &set);
  ToShards();
  Answer(pull.at(0), {0, 0}, 3, 1, 2);  // once more, late
  EXPECT_EQ(set.calls, 0);
}

TEST_F(ClientOneSet, ItsRefusalIsItsOwnAndThePushGoes) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome set, pushed;
  Set(0, {}, &set);
  Push(0, FrameOf({1, 1}), &pushed);
  const auto asked = ToShards();
  FromShard(0, asked.at(0).message.id, wire::ErrorReply{ErrorCode::kFailedPrecondition, "worker 0 has not"});
  EXPECT_EQ(set.Error(), "worker 0 has not");
  const auto push = ToShards();
  ASSERT_THAT(push, SizeIs(1));
  Ack(push[0]);
  EXPECT_TRUE(pushed.Succeeded());
}

TEST_F(ClientOneSet, ItsDeadlineSaysForWhomItWaited) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome set;
  Set(0, {}, &set, now + 3s);
  const auto asked = ToShards();
  FromShard(0, asked.at(0).message.id, wire::StillWaiting{"key0", "worker 0 to set it as well"});
  RunFor(4s);
  EXPECT_EQ(set.Error(),
            "set of key key0, round 0, was not done by its deadline: waiting for worker 0 to set it as well; "
            "the limit is 3 s (SLUICE_OPERATION_TIMEOUT, KVStore::SetTimeout or the call's own timeout)");
}

// The server that is asked when the set has ended is not whom the push_pull has waited for.
TEST_F(ClientOneSet, WhatItHasHeldUpSaysForWhomItWaited) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome set, pushed;
  std::vector<float> value(2);
  Set(0, {}, &set, now + 3s);
  PushPull(0, FrameOf({1, 1}), &value, &pushed, now + 3s + 5ms);
  const auto asked = ToShards();
  FromShard(0, asked.at(0).message.id, wire::StillWaiting{"key0", "worker 0 to set it as well"});
  RunFor(4s);
  EXPECT_THAT(set.Error(),
              HasSubstr("was not done by its deadline: waiting for worker 0 to set it as well;"));
  EXPECT_THAT(
      pushed.Error(),
      HasSubstr("was not done by its deadline: waiting for earlier operations, which waited for worker 0 "
                "to set it as well, and since then for server 0 to answer;"));
}

}  // namespace
}  // namespace sluice::testing
