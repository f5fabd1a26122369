// Leaving in good order: what was handed over arrives first, whatever others do.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientFlush : public ClientHarness {
 protected:
  ClientFlush() {
    AddKey(EntryOf(0, {0}, 2));
    AddKey(EntryOf(1, {1}, 2));
  }
  void Flush(Outcome* outcome, Duration timeout = 60s) {
    client.session().Flush(now, now + timeout, outcome->Record(), network);
  }

  const Frame gradient_ = FrameOf({1, 2});
  std::vector<float> weight_{-1, -1};
  Outcome push_, pull_, flushed_;
};

TEST_F(ClientFlush, WaitsForEveryAcknowledgement) {
  Outcome second;
  Push(0, gradient_, &push_);
  Push(1, gradient_, &second);
  Flush(&flushed_);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  Ack(sent[0]);
  EXPECT_EQ(flushed_.calls, 0);
  RunFor(3 * kResend);  // the other one was lost
  const auto again = ToShards();
  ASSERT_FALSE(again.empty());
  Ack(again.front());
  EXPECT_TRUE(flushed_.Succeeded());
  EXPECT_TRUE(second.Succeeded());
}

TEST_F(ClientFlush, IsDoneAtOnceWhenNothingIsUnderWay) {
  Flush(&flushed_);
  EXPECT_TRUE(flushed_.Succeeded());
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFlush, EndsReadsAndSendsThePushesThatWaitedBehindThem) {
  Outcome later;
  PushPull(0, gradient_, &weight_, &pull_);
  Push(0, gradient_, &later);  // not before round 1 was answered
  auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  Ack(sent[0]);  // others have not pushed round 1
  EXPECT_THAT(ToShards(), IsEmpty());
  Flush(&flushed_);
  EXPECT_THAT(pull_.Error(), HasSubstr("this worker has left the job"));
  EXPECT_EQ(pull_.status.failure().code, ErrorCode::kCancelled);
  sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].As<wire::Push>().parts[0].round, 2u);
  EXPECT_EQ(flushed_.calls, 0);
  Ack(sent[0]);
  EXPECT_TRUE(flushed_.Succeeded());
  EXPECT_TRUE(later.Succeeded());
}

TEST_F(ClientFlush, APushPullThatHasNotArrivedGoesOnAsAPush) {
  PushPull(0, gradient_, &weight_, &pull_);
  ToShards();  // lost
  Flush(&flushed_);
  RunFor(kResend);
  const auto again = ToShards();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_FALSE(again[0].As<wire::Push>().parts[0].want_value);
  Ack(again[0]);
  EXPECT_TRUE(flushed_.Succeeded());
}

// Its value, on its way meanwhile, comes in place of an Ack.
TEST_F(ClientFlush, TheValueOfAPushPullSaysThatItHasArrived) {
  PushPull(0, gradient_, &weight_, &pull_);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  Flush(&flushed_);
  EXPECT_EQ(flushed_.calls, 0);
  Answer(sent[0], {0, 0}, 1, 5, 2);
  EXPECT_TRUE(flushed_.Succeeded());
  EXPECT_THAT(weight_, ElementsAre(-1, -1));  // nobody waits for it
}

TEST_F(ClientFlush, NoOtherAnswerSaysSo) {
  Pull(0, &weight_, &pull_);
  const auto pull = ToShards();
  ASSERT_THAT(pull, SizeIs(1));
  Answer(pull[0], {0, 0}, 0, 5, 2);
  Push(0, gradient_, &push_);
  const auto push = ToShards();
  ASSERT_THAT(push, SizeIs(1));
  Answer(pull[0], {0, 0}, 0, 5, 2);  // again
  Answer(pull[0], {0, 0}, 1, 5, 2);
  Answer(push[0], {0, 0}, 0, 5, 2);
  EXPECT_EQ(push_.calls, 0);
  Ack(push[0]);
  EXPECT_TRUE(push_.Succeeded());
}

TEST_F(ClientFlush, ADeadlineNamesWhatHasNotArrivedAndWhere) {
  Push(1, gradient_, &push_);
  Flush(&flushed_, 10s);
  RunFor(10s);
  EXPECT_EQ(flushed_.status.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(flushed_.Error(),
              AllOf(HasSubstr("push of key key1, round 1"), HasSubstr("server 0 to answer")));
}

TEST_F(ClientFlush, AStopOfTheJobEndsIt) {
  Push(0, gradient_, &push_);
  Flush(&flushed_);
  FromScheduler(wire::Stop{wire::Stop::Reason::kFailed, "worker 1 died"});
  EXPECT_THAT(flushed_.Error(), HasSubstr("worker 1 died"));
}

TEST_F(ClientFlush, OthersThanWorkerZeroWaitForTheOptimiser) {
  Outcome set;
  client.requests().AwaitOptimizer(now, 0, now + 10s, set.Record(), network);
  const Sent request = ToScheduler();
  EXPECT_TRUE(request.Is<wire::AwaitOptimizer>());
  FromScheduler(wire::StillWaiting{"optimiser", "worker 0 to set the optimiser"}, request.message.id);
  EXPECT_EQ(set.calls, 0);
  RunFor(10s);
  EXPECT_THAT(set.Error(), HasSubstr("waiting for worker 0 to set the optimiser"));
}

}  // namespace
}  // namespace sluice::testing
