// Tests kvstore/membership: how a node registers, sends heartbeats, hears of others and leaves. The test
// plays the scheduler, in virtual time.
#include "kvstore/membership/membership_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/recording_network.h"

namespace sluice::membership {
namespace {

using sluice::testing::RecordingNetwork;
using sluice::testing::Sent;
using ::testing::HasSubstr;
using wire::NodeState;
using wire::Role;

constexpr uint64_t kSchedulerIncarnation = 99;

std::vector<wire::NodeInfo> Roster(NodeState worker1 = NodeState::kAlive) {
  return {{.role = Role::kServer, .rank = 0, .incarnation = 1},
          {.role = Role::kWorker, .rank = 0, .incarnation = 2},
          {.role = Role::kWorker, .rank = 1, .incarnation = 3, .state = worker1}};
}

class MembershipClientTest : public ::testing::Test {
 protected:
  MembershipClientTest() { client_.OnStart(now_, network_); }

  bool Deliver(wire::Body body, uint64_t epoch = 1, uint64_t in_reply_to = 0) {
    wire::Message message;
    message.sender = {Role::kScheduler, 0, kSchedulerIncarnation};
    message.epoch = epoch;
    message.in_reply_to = in_reply_to;
    message.body = std::move(body);
    return client_.OnMessage(now_, client_.scheduler(), message, network_);
  }
  void Join(uint64_t epoch = 1) {
    Deliver(wire::Welcome{wire::Welcome::State::kComplete, 1, "", Roster()}, epoch);
    network_.Take();
  }
  // Lets the time go by timer by timer, until `end` after the start.
  void RunUntil(Duration end) {
    while (client_.NextTimer() <= Time{} + end) {
      now_ = std::max(now_, client_.NextTimer());
      client_.OnTimer(now_, network_);
    }
    now_ = Time{} + end;
  }
  template <typename Body>
  size_t Count() {
    return network_.Take<Body>(client_.scheduler()).size();
  }

  RecordingNetwork network_;
  Time now_{};
  int asked_ = 0;
  MembershipClient client_{{.role = Role::kWorker,
                            .job = 5,
                            .incarnation = 3,
                            .scheduler_address = "tcp://10.0.0.1:9091",
                            .identity = "w-b",
                            .requested_rank = 1,
                            .host = "b",
                            .pid = 17,
                            .num_workers = 2,
                            .num_servers = 1,
                            .heartbeat_interval = 1s,
                            .heartbeat_timeout = 5s,
                            .rendezvous_timeout = 60s,
                            .on_asked_to_end = [this] { ++asked_; }}};
};

TEST_F(MembershipClientTest, RegistersAtOnceWithAllItKnows) {
  EXPECT_EQ(network_.addresses, std::vector<std::string>{"tcp://10.0.0.1:9091"});
  const std::vector<Sent> sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.job, 5u);
  EXPECT_EQ(sent[0].message.sender.incarnation, 3u);
  EXPECT_EQ(sent[0].As<wire::Register>(), (wire::Register{.role = Role::kWorker,
                                                          .identity = "w-b",
                                                          .requested_rank = 1,
                                                          .host = "b",
                                                          .pid = 17,
                                                          .num_workers = 2,
                                                          .num_servers = 1,
                                                          .heartbeat_ms = 1000}));
}

TEST_F(MembershipClientTest, AServerTellsItsThreadsAndThenItsAddresses) {
  MembershipClient server({.role = Role::kServer, .server_threads = 3, .default_server_threads = 5});
  server.OnStart(now_, network_);
  const auto registered = [&] { return network_.Take().back().As<wire::Register>(); };
  wire::Register heard = registered();
  EXPECT_EQ(std::pair(heard.server_threads, heard.default_server_threads), std::pair(3u, 5u));
  EXPECT_TRUE(heard.shard_addresses.empty());
  EXPECT_EQ(server.server_threads(), 0u);
  wire::Message message;
  message.sender = {Role::kScheduler, 0, kSchedulerIncarnation};
  message.body = wire::Welcome{wire::Welcome::State::kWaiting, 0, "worker 0", {}, 3};
  server.OnMessage(now_, server.scheduler(), message, network_);
  EXPECT_EQ(server.server_threads(), 3u);
  server.SetShardAddresses(now_, {"a", "b", "c"}, network_);
  EXPECT_EQ(registered().shard_addresses.size(), 3u);
}

TEST_F(MembershipClientTest, RegistersEverySecondUntilTheJobIsComplete) {
  RunUntil(3500ms);
  EXPECT_EQ(Count<wire::Register>(), 4u);
  Deliver(wire::Welcome{wire::Welcome::State::kWaiting, 1, "worker 0", {}});
  EXPECT_EQ(client_.state(), MemberState::kJoining);
  EXPECT_EQ(client_.Missing(), "worker 0");
  EXPECT_THAT(client_.Describe(now_), HasSubstr("waiting for worker 0"));
  RunUntil(5500ms);
  EXPECT_EQ(Count<wire::Register>(), 2u);
  Join(7);
  EXPECT_EQ(client_.state(), MemberState::kMember);
  EXPECT_EQ(client_.rank(), 1u);
  EXPECT_EQ(client_.epoch(), 7u);
  EXPECT_EQ(client_.roster(), Roster());
  RunUntil(8500ms);
  EXPECT_EQ(Count<wire::Register>(), 0u);
}

TEST_F(MembershipClientTest, AnswersAtOnceWhenAskedWhetherItLives) {
  network_.Take();
  wire::Message message;
  message.sender = {Role::kScheduler, 0, kSchedulerIncarnation};
  message.id = 77;
  message.body = wire::Welcome{wire::Welcome::State::kWaiting, 1, "worker 0", {}};
  client_.OnMessage(now_, client_.scheduler(), message, network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].Is<wire::Register>());
  EXPECT_EQ(sent[0].message.in_reply_to, 77u);
  EXPECT_EQ(client_.state(), MemberState::kJoining);
}

TEST_F(MembershipClientTest, MessagesCarryRankIncarnationAndEpoch) {
  Join(7);
  const wire::Message message = client_.Make(wire::Ack{}, 11, 12);
  EXPECT_EQ(message.job, 5u);
  EXPECT_EQ(message.sender, (wire::Sender{Role::kWorker, 1, 3}));
  EXPECT_EQ(message.epoch, 7u);
  EXPECT_EQ(message.id, 11u);
  EXPECT_EQ(message.in_reply_to, 12u);
}

// The network may let a later message overtake an earlier one.
TEST_F(MembershipClientTest, ALaterRosterIsNotReplacedByAnEarlierWelcome) {
  std::vector<wire::NodeInfo> later = Roster();
  later.front().state = wire::NodeState::kDead;
  Deliver(wire::Membership{later}, 8);
  Join(7);
  EXPECT_EQ(client_.state(), MemberState::kMember);
  EXPECT_EQ(client_.rank(), 1u);
  EXPECT_EQ(client_.epoch(), 8u);
  EXPECT_EQ(client_.roster(), later);
  EXPECT_EQ(client_.NumDead(), 1u);
}

TEST_F(MembershipClientTest, HeartbeatsFromTheFirstMomentOn) {
  RunUntil(3500ms);
  EXPECT_EQ(Count<wire::Heartbeat>(), 3u);
  Join();
  RunUntil(6500ms);
  EXPECT_EQ(Count<wire::Heartbeat>(), 3u);
}

TEST_F(MembershipClientTest, AskedToEndItSaysSoAtOnceAndWithEveryHeartbeat) {
  Join();
  client_.AskToEnd(network_);
  EXPECT_EQ(network_.Take<wire::Heartbeat>(client_.scheduler()), std::vector{wire::Heartbeat{true}});
  RunUntil(1s);
  EXPECT_EQ(network_.Take<wire::Heartbeat>(client_.scheduler()), std::vector{wire::Heartbeat{true}});
}

TEST_F(MembershipClientTest, HearsOnceThatAWorkerWasAskedToEnd) {
  Join();
  Deliver(wire::HeartbeatAck{});
  EXPECT_EQ(asked_, 0);
  Deliver(wire::HeartbeatAck{true});
  Deliver(wire::HeartbeatAck{true});
  EXPECT_EQ(asked_, 1);
}

TEST_F(MembershipClientTest, ASilentSchedulerIsNamedWithItsAddressAndVariables) {
  Join();
  RunUntil(4s);
  Deliver(wire::HeartbeatAck{});
  RunUntil(8999ms);
  EXPECT_EQ(client_.state(), MemberState::kMember);
  RunUntil(9s);
  ASSERT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_EQ(client_.stop()->reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(client_.stop()->message, HasSubstr("tcp://10.0.0.1:9091"));
  EXPECT_THAT(client_.stop()->message, HasSubstr("DMLC_PS_ROOT_URI"));
  EXPECT_THAT(client_.stop()->message, HasSubstr("PS_HEARTBEAT_TIMEOUT"));
  EXPECT_EQ(client_.NextTimer(), Time::max());
}

TEST_F(MembershipClientTest, WhenNobodyAnswersTheDeadlineSaysWhere) {
  RunUntil(59s);
  EXPECT_EQ(client_.state(), MemberState::kJoining);
  RunUntil(60s);
  ASSERT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_THAT(client_.stop()->message, HasSubstr("no answer from the scheduler at tcp://10.0.0.1:9091"));
  EXPECT_THAT(client_.stop()->message, HasSubstr("DMLC_PS_ROOT_PORT"));
}

TEST_F(MembershipClientTest, WhenOthersDoNotComeTheDeadlineNamesThem) {
  for (int second = 1; second < 60; second += 2) {
    RunUntil(std::chrono::seconds(second));
    Deliver(wire::Welcome{wire::Welcome::State::kWaiting, 1, "worker 0", {}});
  }
  RunUntil(60s);
  ASSERT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_THAT(client_.stop()->message, HasSubstr("missing worker 0"));
}

TEST_F(MembershipClientTest, ARefusalEndsTheNodeWithItsReason) {
  EXPECT_TRUE(Deliver(wire::ErrorReply{ErrorCode::kAlreadyExists, "identity 'w-b' is taken"}));
  ASSERT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_THAT(client_.stop()->message, HasSubstr("identity 'w-b' is taken"));
}

TEST_F(MembershipClientTest, WhoComesToAJobThatFailedWasToldTheReasonByTheScheduler) {
  Deliver(wire::ErrorReply{ErrorCode::kUnavailable, "the job has ended: server 0 failed"});
  EXPECT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_TRUE(client_.stopped_by_scheduler());
  EXPECT_EQ(client_.stop()->message, "could not join the job: the job has ended: server 0 failed");
}

TEST_F(MembershipClientTest, WhoComesToAJobThatIsDoneReportsItItself) {
  Deliver(wire::ErrorReply{ErrorCode::kCancelled, "the job has ended: all workers have finished"});
  EXPECT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_FALSE(client_.stopped_by_scheduler());
}

// What somebody else has asked for may be refused, and this node joins all the same.
TEST_F(MembershipClientTest, AnErrorThatAnswersAnotherRequestIsNoRefusal) {
  EXPECT_FALSE(Deliver(wire::ErrorReply{ErrorCode::kUnavailable, "not yet"}, 1, 7));
  EXPECT_EQ(client_.state(), MemberState::kJoining);
}

TEST_F(MembershipClientTest, ANewerEpochIsAskedForAndTaken) {
  Join(1);
  Deliver(wire::HeartbeatAck{}, 1);
  EXPECT_EQ(Count<wire::GetMembership>(), 0u);
  Deliver(wire::HeartbeatAck{}, 2);
  EXPECT_EQ(Count<wire::GetMembership>(), 1u);
  Deliver(wire::Membership{Roster(NodeState::kDead)}, 2);
  EXPECT_EQ(client_.epoch(), 2u);
  EXPECT_EQ(client_.NumDead(), 1u);
  Deliver(wire::Membership{Roster()}, 1);  // late
  EXPECT_EQ(client_.NumDead(), 1u);
}

TEST_F(MembershipClientTest, TheFirstStopCounts) {
  Join();
  Deliver(wire::Stop{wire::Stop::Reason::kFinished, "all workers have finished"});
  Deliver(wire::Stop{wire::Stop::Reason::kFailed, "late"});
  ASSERT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_EQ(client_.stop()->reason, wire::Stop::Reason::kFinished);
  Deliver(wire::Membership{Roster(NodeState::kDead)}, 2);  // the dead are counted on the way out, too
  EXPECT_EQ(client_.NumDead(), 1u);
}

TEST_F(MembershipClientTest, AStopCarriesTheDead) {
  Join(4);
  const wire::Stop stop{wire::Stop::Reason::kFailed, "worker 1 is dead", Roster(NodeState::kDead)};
  Deliver(stop, 5);
  EXPECT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_EQ(client_.NumDead(), 1u);
  EXPECT_EQ(client_.epoch(), 5u);
}

TEST_F(MembershipClientTest, AStopOfAnEarlierEpochStopsAndCountsNobodyTwice) {
  Join(4);
  Deliver(wire::Membership{Roster(NodeState::kDead)}, 5);
  Deliver(wire::Stop{wire::Stop::Reason::kFailed, "reordered", Roster()}, 4);
  EXPECT_EQ(client_.state(), MemberState::kStopped);
  EXPECT_EQ(client_.NumDead(), 1u);
}

TEST_F(MembershipClientTest, ASilentSchedulerCountsAsDead) {
  Join();
  RunUntil(4999ms);
  EXPECT_EQ(client_.NumDead(), 0u);
  RunUntil(5s);
  EXPECT_EQ(client_.NumDead(), 1u);
}

TEST_F(MembershipClientTest, LeavesWhatIsNotItsOwnToTheMachine) {
  Join();
  EXPECT_FALSE(Deliver(wire::Ack{}, 1, 4));
  EXPECT_FALSE(Deliver(wire::ErrorReply{ErrorCode::kNotFound, "no"}, 1, 4));
  EXPECT_FALSE(Deliver(wire::KeyTable{}, 1, 4));
  wire::Message of_a_worker;
  of_a_worker.sender = {Role::kWorker, 0, 2};
  of_a_worker.body = wire::Stop{wire::Stop::Reason::kFailed, "forged"};
  EXPECT_FALSE(client_.OnMessage(now_, {77}, of_a_worker, network_));
  EXPECT_FALSE(client_.OnMessage(now_, client_.scheduler(), of_a_worker, network_));
  EXPECT_EQ(client_.state(), MemberState::kMember);
}

TEST_F(MembershipClientTest, LeavingIsSilent) {
  Join();
  client_.Leave();
  EXPECT_EQ(client_.NextTimer(), Time::max());
  now_ += 100s;
  client_.OnTimer(now_, network_);
  EXPECT_TRUE(network_.Take().empty());
  EXPECT_EQ(client_.state(), MemberState::kMember);
}

}  // namespace
}  // namespace sluice::membership
