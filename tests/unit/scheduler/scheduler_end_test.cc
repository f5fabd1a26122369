// How a job ends: deaths, failures, everybody done.
#include <gmock/gmock.h>

#include "unit/scheduler/scheduler_harness.h"

namespace sluice::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SchedulerTest, ADeathStopsTheJobNamingTheDead) {
  JoinAll();
  const uint64_t epoch = Deliver(kWorker0, wire::Heartbeat{}).at(0).message.epoch;
  RunUntil(9s);
  for (const Node& node : {kServer0, kServer1, kWorker0}) Deliver(node, wire::Heartbeat{});
  RunUntil(9999ms);
  EXPECT_TRUE(network_.Take().empty());
  RunUntil(10s);
  // The death and the end in one message: nobody can hear the one and act on it before the other.
  const auto told = network_.Take();
  EXPECT_THAT(PeersOf(told), ElementsAre(kServer0.peer(), kServer1.peer(), kWorker0.peer()));
  for (const Sent& sent : told) {
    EXPECT_GT(sent.message.epoch, epoch);
    EXPECT_EQ(sent.As<wire::Stop>().reason, wire::Stop::Reason::kFailed);
    EXPECT_THAT(sent.As<wire::Stop>().message, HasSubstr("worker 1"));
    EXPECT_EQ(sent.As<wire::Stop>().roster.at(3).state, NodeState::kDead);
    EXPECT_EQ(sent.As<wire::Stop>().roster.at(2).state, NodeState::kAlive);
  }
  EXPECT_EQ(scheduler_.NumDead(), 1u);
  EXPECT_THAT(scheduler_.DumpState(now_), HasSubstr("1 dead"));
  EXPECT_TRUE(Deliver(kWorker1, wire::Heartbeat{}).at(0).Is<wire::Stop>());  // too late: it was only slow
  EXPECT_EQ(scheduler_.NumDead(), 1u);
  EXPECT_THAT(Register({Role::kWorker, 5}).at(0).As<wire::ErrorReply>().message, HasSubstr("worker"));
  for (const Node& node : {kServer0, kServer1, kWorker0}) {
    EXPECT_FALSE(scheduler_.Done());
    const auto sent = Deliver(node, wire::Leave{wire::Leave::Outcome::kFailed, "told to"}, 1);
    EXPECT_TRUE(sent.at(0).Is<wire::Ack>());
  }
  scheduler_.OnTimer(now_, network_);
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_THAT(scheduler_.outcome().message, HasSubstr("worker 1 (host h, pid 0) is dead"));
}

TEST_F(SchedulerTest, WhoAsksWhileTheJobStopsHearsTheEndAndNotTheRosterAlone) {
  JoinAll();
  RunUntil(9s);
  for (const Node& node : {kServer0, kServer1, kWorker0}) Deliver(node, wire::Heartbeat{});
  RunUntil(10s);
  network_.Take();  // all lost
  const std::vector<wire::Body> questions = {wire::Heartbeat{}, wire::GetMembership{}};
  for (const wire::Body& question : questions) {
    const auto sent = Deliver(kServer0, question);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].As<wire::Stop>().roster.at(3).state, NodeState::kDead);
  }
}

TEST_F(SchedulerTest, StopIsRepeatedButNotForEver) {
  JoinAll();
  Deliver(kWorker0, wire::Leave{}, 1);
  Deliver(kWorker1, wire::Leave{}, 1);
  RunUntil(1s);
  EXPECT_GE(network_.Take<wire::Stop>(kServer0.peer()).size(), 2u);
  RunUntil(4999ms);
  EXPECT_FALSE(scheduler_.Done());
  RunUntil(5s);
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(scheduler_.outcome().message,
              HasSubstr("server 0 (host h, pid 0), server 1 (host h, pid 0) did not end"));
}

TEST_F(SchedulerTest, AServerThatDiesBeforeTheEndHasNotEndedWell) {
  JoinAll();
  RunUntil(8s);
  Deliver(kServer0, wire::Heartbeat{});
  for (const Node& node : {kWorker0, kWorker1}) {
    Deliver(node, wire::Leave{}, 1);
    scheduler_.OnClosed(now_, node.peer(), network_);
  }
  Deliver(kServer0, wire::Leave{}, 1);
  RunUntil(9999ms);
  EXPECT_FALSE(scheduler_.Done());
  RunUntil(10s);
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_EQ(scheduler_.NumDead(), 1u);
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(scheduler_.outcome().message, HasSubstr("but server 1 (host h, pid 0) did not end"));
}

TEST_F(SchedulerTest, AWorkerThatMayNotHaveHeardItsAnswerIsWaitedFor) {
  JoinAll();
  for (const Node& node : {kWorker0, kWorker1, kServer0, kServer1}) Deliver(node, wire::Leave{}, 1);
  scheduler_.OnClosed(now_, kWorker0.peer(), network_);
  RunUntil(1s);
  EXPECT_FALSE(scheduler_.Done());
  EXPECT_TRUE(Deliver(kWorker1, wire::Leave{}, 1).at(0).Is<wire::Ack>());
  EXPECT_TRUE(network_.Take<wire::Stop>(kWorker1.peer()).empty());
  RunUntil(4999ms);
  EXPECT_FALSE(scheduler_.Done());
  RunUntil(5s);  // not for ever
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFinished);
}

// As when a launcher saw worker 1 die and stops the rest, before any heartbeat is missed.
TEST_F(SchedulerTest, AFailedJobWaitsForNobodyUntilALauncherKillsIt) {
  JoinAll();
  scheduler_.FailJob(now_, "SIGTERM", network_);
  for (const Node& node : {kServer0, kServer1, kWorker0})
    Deliver(node, wire::Leave{wire::Leave::Outcome::kFailed, "SIGTERM"}, 1);
  RunUntil(1999ms);
  EXPECT_FALSE(scheduler_.Done());
  EXPECT_GE(network_.Take<wire::Stop>(kWorker1.peer()).size(), 4u);
  RunUntil(2s);
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_LT(scheduler_.Linger(), 1s) << "who has gone may not have waited for an answer";
  EXPECT_EQ(scheduler_.outcome().message, "SIGTERM");
}

// As when a server gets SIGTERM while workers still read their data: nobody else could tell them.
TEST_F(SchedulerTest, WhoComesAfterAJobFailedBeforeItWasCompleteHearsWhy) {
  for (const Node& node : {kServer0, kServer1, kWorker0}) Register(node);
  Deliver(kServer1, wire::Leave{wire::Leave::Outcome::kFailed, "SIGTERM"}, 1);
  for (const Node& node : {kServer0, kWorker0})
    Deliver(node, wire::Leave{wire::Leave::Outcome::kFailed, "server 1 failed"}, 1);
  RunUntil(9s);
  EXPECT_FALSE(scheduler_.Done());
  const auto sent = Register(kWorker1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_THAT(sent[0].As<wire::ErrorReply>().message, HasSubstr("server 1"));
  EXPECT_TRUE(scheduler_.Done());
}

// Others tell the reason of a failure; that a job is done, nobody else has to say.
TEST_F(SchedulerTest, WhoComesTooLateHearsWhetherTheJobHasFailed) {
  JoinAll();
  Deliver(kWorker0, wire::Leave{}, 1);
  Deliver(kWorker1, wire::Leave{}, 1);
  const auto done = Register({Role::kWorker, 7});
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].As<wire::ErrorReply>().code, ErrorCode::kCancelled);
}

TEST_F(SchedulerTest, LatecomersAreAwaitedForTheHeartbeatTimeoutAndNotByWhoIsToldToEnd) {
  for (const bool told : {false, true}) {
    Scheduler scheduler({.job = 3, .num_workers = 2, .num_servers = 2, .heartbeat_timeout = 10s});
    scheduler.OnStart(now_, network_);
    wire::Message message;
    message.sender = {Role::kServer, 0, 5};
    message.body = wire::Register{
        .role = Role::kServer, .num_workers = 2, .num_servers = 2, .shard_addresses = {"tcp://h:1"}};
    scheduler.OnMessage(now_, kServer0.peer(), message, network_);
    message.body = wire::Leave{wire::Leave::Outcome::kFailed, "SIGTERM"};
    scheduler.OnMessage(now_, kServer0.peer(), message, network_);
    EXPECT_FALSE(scheduler.Done());
    EXPECT_EQ(scheduler.NextTimer(), now_ + 10s);
    if (told) {
      scheduler.FailJob(now_, "SIGTERM", network_);
    } else {
      scheduler.OnTimer(now_ + 10s, network_);
    }
    EXPECT_TRUE(scheduler.Done()) << told;
  }
}

TEST_F(SchedulerTest, AFailedJobDoesNotWaitForWhoseConnectionHasClosed) {
  JoinAll();
  scheduler_.OnClosed(now_, kWorker0.peer(), network_);  // before anybody knows why
  scheduler_.OnClosed(now_, kWorker1.peer(), network_);
  Deliver(kWorker1, wire::Heartbeat{});  // and is back
  scheduler_.FailJob(now_, "SIGTERM", network_);
  for (const Node& node : {kServer0, kServer1})
    Deliver(node, wire::Leave{wire::Leave::Outcome::kFailed, "SIGTERM"}, 1);
  RunUntil(1s);
  EXPECT_FALSE(scheduler_.Done());
  scheduler_.OnClosed(now_, kWorker1.peer(), network_);
  EXPECT_TRUE(scheduler_.Done());
}

TEST_F(SchedulerTest, AJobThatEndsWellWaitsForServersToComeBack) {
  JoinAll();
  Deliver(kWorker0, wire::Leave{}, 1);
  Deliver(kWorker1, wire::Leave{}, 1);
  Deliver(kServer0, wire::Leave{}, 1);
  scheduler_.OnClosed(now_, kServer1.peer(), network_);
  EXPECT_FALSE(scheduler_.Done());
  RunUntil(1s);
  EXPECT_FALSE(network_.Take<wire::Stop>(kServer1.peer()).empty());
}

TEST_F(SchedulerTest, WhenAllWorkersHaveFinishedTheServersAreStopped) {
  JoinAll();
  const auto first = Deliver(kWorker0, wire::Leave{}, 1);
  EXPECT_TRUE(first.at(0).Is<wire::Ack>());
  for (size_t i = 1; i < first.size(); ++i)
    EXPECT_EQ(first[i].As<wire::Membership>().roster.at(2).state, NodeState::kFinished);
  EXPECT_EQ(first.size(), 4u);                                // the Ack; two servers and a worker hear of it
  EXPECT_EQ(Deliver(kWorker0, wire::Leave{}, 1).size(), 1u);  // the Ack was lost
  std::vector<transport::PeerId> stopped;
  for (const Sent& sent : Deliver(kWorker1, wire::Leave{}, 2)) {
    if (!sent.Is<wire::Stop>()) continue;
    EXPECT_EQ(sent.As<wire::Stop>().reason, wire::Stop::Reason::kFinished);
    stopped.push_back(sent.to);
  }
  EXPECT_THAT(stopped, ElementsAre(kServer0.peer(), kServer1.peer()));
  Deliver(kServer0, wire::Leave{}, 1);
  Deliver(kServer1, wire::Leave{}, 1);
  for (const Node& node : {kWorker0, kWorker1}) scheduler_.OnClosed(now_, node.peer(), network_);
  EXPECT_TRUE(scheduler_.Done());
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFinished);
}

TEST_F(SchedulerTest, AFinishedWorkerMayBeSilent) {
  JoinAll();
  Deliver(kWorker0, wire::Leave{}, 1);
  for (int second = 5; second < 60; second += 5) {
    RunUntil(std::chrono::seconds(second));
    for (const Node& node : {kServer0, kServer1, kWorker1}) Deliver(node, wire::Heartbeat{});
  }
  EXPECT_FALSE(scheduler_.Done());
  EXPECT_TRUE(network_.Take<wire::Stop>(kWorker1.peer()).empty());
}

TEST_F(SchedulerTest, AFailureStopsEverybodyAtOnce) {
  JoinAll();
  size_t stops = 0;
  for (const Sent& sent : Deliver(kWorker1, wire::Leave{wire::Leave::Outcome::kFailed, "out of data"}, 1)) {
    if (!sent.Is<wire::Stop>()) continue;
    ++stops;
    EXPECT_THAT(sent.As<wire::Stop>().message, HasSubstr("worker 1 (host h, pid 0) failed: out of data"));
  }
  EXPECT_EQ(stops, 3u);
}

TEST_F(SchedulerTest, AServerThatLeavesBeforeTheEndIsAFailure) {
  JoinAll();
  Deliver(kServer1, wire::Leave{wire::Leave::Outcome::kFailed, "SIGTERM"}, 1);
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(scheduler_.outcome().message, HasSubstr("server 1"));
}

}  // namespace
}  // namespace sluice::scheduler
