// The end of a worker's part in the job, and who has to be alive for it.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClientLeaving : public ClientHarness {
 protected:
  ClientLeaving() { AddKey(EntryOf(0, {0}, 2)); }
  // Begins to leave in good order; what the scheduler gets when the servers have answered.
  Sent LeaveMessage() {
    client.session().Leave(now, {}, Time::max(), outcome_.Record(), network);
    const auto asked = ToShards();
    EXPECT_EQ(asked.size(), 2u);
    for (const Sent& question : asked) {
      EXPECT_TRUE(question.Is<wire::GetStats>());
      FromShard(ShardOf(question), question.message.id, wire::Stats{});
    }
    return ToScheduler();
  }
  // The job has failed: the others know, and one leave message is enough.
  void FailToo() {
    EXPECT_FALSE(client.Done());
    network.Take();
    client.session().Leave(now, {wire::Leave::Outcome::kFailed, "as all"}, Time::max(), second_.Record(),
                           network);
    EXPECT_TRUE(ToScheduler().Is<wire::Leave>());
    EXPECT_TRUE(client.Done());
  }
  std::vector<float> weight_ = {-1, -1};
  Outcome outcome_, second_;
};

TEST_F(ClientLeaving, LeavingEndsTheMachineWhenItIsAcknowledged) {
  const Sent leave = LeaveMessage();
  EXPECT_TRUE(leave.Is<wire::Leave>());
  EXPECT_FALSE(client.Done());
  FromScheduler(wire::Ack{}, leave.message.id);
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_TRUE(client.Done());
}

TEST_F(ClientLeaving, WhoseLeaveIsNotAnsweredRepeatsItAndTakesTheEndOfAllForTheAnswer) {
  const Sent leave = LeaveMessage();
  RunFor(250ms);
  const Sent again = ToScheduler();
  EXPECT_TRUE(again.Is<wire::Leave>());
  EXPECT_EQ(again.message.id, leave.message.id);
  FromScheduler(wire::Stop{wire::Stop::Reason::kFinished, "all workers have finished"});
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_TRUE(client.Done());
}

TEST_F(ClientLeaving, NobodyLeavesAsIfAllWereWellWhileAServerDoesNotAnswer) {
  client.session().Leave(now, {}, Time::max(), outcome_.Record(), network);
  FromShard(1, ToShards().at(1).message.id, wire::Stats{});
  EXPECT_THAT(network.Take(), IsEmpty());  // no leave message yet
  RunFor(1s);
  EXPECT_EQ(outcome_.calls, 0);
  for (const Sent& asked : ToShards()) EXPECT_EQ(asked.to, ShardPeer(0));
  FromScheduler(wire::Stop{wire::Stop::Reason::kFailed, "server 0 is dead"});
  EXPECT_THAT(outcome_.Error(), HasSubstr("server 0 is dead"));
  FailToo();
}

TEST_F(ClientLeaving, AServerThatNeverAnswersTheLeavingIsNamed) {
  client.session().Leave(now, {}, now + 5s, outcome_.Record(), network);
  RunFor(5s);
  EXPECT_THAT(outcome_.Error(),
              HasSubstr("leaving the job was not done by its deadline: waiting for server 0"));
  EXPECT_FALSE(client.Done());
  client.session().Leave(now, {wire::Leave::Outcome::kFailed, "no answer"}, Time::max(), second_.Record(),
                         network);
  FromScheduler(wire::Ack{}, ToScheduler().message.id);
  EXPECT_TRUE(client.Done());
}

TEST_F(ClientLeaving, ASchedulerThatDiesBeforeItAnswersTheLeaveIsADeath) {
  LeaveMessage();
  const Time start = now;
  while (outcome_.calls == 0 && now < start + 60s) {
    now = std::max(now, client.NextTimer());
    client.OnTimer(now, network);
  }
  EXPECT_THAT(outcome_.Error(), HasSubstr("dead or unreachable"));
  EXPECT_EQ(now, start + 10s);
  FailToo();
}

TEST_F(ClientLeaving, LeavingEndsWhatIsStillOpen) {
  Pull(0, &weight_, &second_);
  ToShards();
  client.session().Leave(now, {wire::Leave::Outcome::kFailed, "no more"}, Time::max(), outcome_.Record(),
                         network);
  EXPECT_EQ(second_.calls, 0);  // the answer may still come
  FromScheduler(wire::Ack{}, ToScheduler().message.id);
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_THAT(second_.Error(), HasSubstr("left the job"));
  EXPECT_TRUE(client.Done());
}

}  // namespace
}  // namespace sluice::testing
