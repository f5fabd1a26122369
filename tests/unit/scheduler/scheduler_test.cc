// Joining, keys, optimisers, barriers.
#include <gmock/gmock.h>

#include "unit/scheduler/scheduler_harness.h"

namespace sluice::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SchedulerTest, EveryoneIsWelcomedWhenTheLastOneJoins) {
  EXPECT_EQ(Register(kWorker1).at(0).As<wire::Welcome>(),
            (wire::Welcome{wire::Welcome::State::kWaiting, 1, "server 0, server 1, worker 0", {}, 1}));
  Register(kServer1);
  Register(kServer0);
  EXPECT_THAT(completions_, ElementsAre());
  const auto sent = Register(kWorker0);
  EXPECT_THAT(completions_, ElementsAre(0u));  // before anybody hears of it
  EXPECT_EQ(sent.size(), 4u);
  for (const Sent& one : sent) {
    EXPECT_EQ(one.message.job, 3u);
    EXPECT_EQ(one.message.sender, (wire::Sender{Role::kScheduler, 0, 9}));
    const auto& welcome = one.As<wire::Welcome>();
    EXPECT_EQ(welcome.state, wire::Welcome::State::kComplete);
    ASSERT_EQ(welcome.roster.size(), 4u);
    EXPECT_EQ(welcome.roster[3].incarnation, kWorker1.incarnation());
    EXPECT_THAT(welcome.roster[0].shard_addresses, ElementsAre("tcp://h:1"));
  }
  // A Welcome that was lost is given again.
  EXPECT_EQ(Register(kWorker0).at(0).As<wire::Welcome>().state, wire::Welcome::State::kComplete);
}

TEST_F(SchedulerTest, WhoeverStartedItHearsWhoJoins) {
  Register(kWorker1);
  Register(kWorker1);  // repeated
  Register(kServer0);
  EXPECT_THAT(joined_, ElementsAre("worker 1", "server 0"));
}

TEST_F(SchedulerTest, WhoeverStartedItHearsNowAndThenThatSomebodyIsMissing) {
  for (const auto& [at, expected] : {std::pair{9s, 0}, {10s, 1}, {19s, 1}, {20s, 2}}) {
    scheduler_.OnTimer(Time() + at, network_);
    EXPECT_EQ(waitings_, expected) << at.count() << " s";
  }
}

TEST_F(SchedulerTest, WhoCannotJoinIsToldWhy) {
  JoinAll();
  const auto sent = Register({Role::kWorker, 2});
  EXPECT_THAT(sent.at(0).As<wire::ErrorReply>().message, HasSubstr("already has its 2 workers"));
  EXPECT_EQ(sent.at(0).message.in_reply_to, 0u);
}

TEST_F(SchedulerTest, DuringTheRendezvousARestartedNodeTakesItsPlace) {
  Register(kWorker1);
  const Successor successor;
  const auto asked = RegisterAgain(successor);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_NE(asked[0].message.id, 0u);
  EXPECT_EQ(asked[0].As<wire::Welcome>().state, wire::Welcome::State::kWaiting);
  EXPECT_EQ(Deliver(kWorker1, wire::Heartbeat{}).size(), 1u);  // nothing has changed yet
  const auto taken = RegisterAgain(successor, asked[0].message.id);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].to, kWorker1.peer());
  EXPECT_THAT(taken[0].As<wire::Stop>().message,
              HasSubstr("replaced by worker 1 (host new, pid 8), which brought its identity 'w1'"));
  EXPECT_EQ(taken[1].to, successor.peer);
  EXPECT_EQ(taken[1].As<wire::Welcome>().rank, 1u);
  // The former process hears that it is none any more, whatever it says, and does not end the job.
  EXPECT_TRUE(Deliver(kWorker1, wire::Heartbeat{}).at(0).Is<wire::Stop>());
  EXPECT_TRUE(Register(kWorker1).at(0).Is<wire::Stop>());
  EXPECT_TRUE(
      Deliver(kWorker1, wire::Leave{wire::Leave::Outcome::kFailed, "replaced"}, 3).at(0).Is<wire::Ack>());
  for (const Node& node : {kServer0, kServer1}) Register(node);
  const auto complete = Register(kWorker0);
  EXPECT_EQ(complete.at(0).As<wire::Welcome>().roster.at(3).incarnation, successor.incarnation);
  EXPECT_FALSE(scheduler_.Done());
}

TEST_F(SchedulerTest, ABelatedRegisterOfADeadProcessStopsNoJob) {
  JoinAll();
  for (int copy = 0; copy < 3; ++copy) {
    const auto asked = RegisterAgain({});
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked[0].As<wire::Welcome>().state, wire::Welcome::State::kWaiting);
  }
  EXPECT_EQ(scheduler_.NumDead(), 0u);
  EXPECT_TRUE(Deliver(kWorker1, wire::Heartbeat{}).at(0).Is<wire::HeartbeatAck>());
}

TEST_F(SchedulerTest, WhoReturnsToACompleteJobWasDeadAndEndsItAtOnce) {
  JoinAll();
  now_ += 10ms;
  const Successor successor;
  const auto sent = RegisterAgain(successor, RegisterAgain(successor).at(0).message.id);
  EXPECT_THAT(PeersOf(sent), ElementsAre(kServer0.peer(), kServer1.peer(), kWorker0.peer(), successor.peer));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].As<wire::Stop>().roster.at(3).state, NodeState::kDead);
    EXPECT_EQ(
        sent[i].As<wire::Stop>().message,
        "worker 1 (host h, pid 0) is dead: a new process (host new, pid 8) has come with its identity 'w1' "
        "(SLUICE_NODE_ID)");
  }
  EXPECT_THAT(sent[3].As<wire::ErrorReply>().message, HasSubstr("the job has ended: worker 1"));
  EXPECT_EQ(sent[3].As<wire::ErrorReply>().code, ErrorCode::kUnavailable);
  EXPECT_EQ(scheduler_.NumDead(), 1u);
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFailed);
}

TEST_F(SchedulerTest, UnknownSendersAreIgnored) {
  JoinAll();
  EXPECT_TRUE(Deliver({Role::kWorker, 7}, Declaration(), 1).empty());
  EXPECT_TRUE(Deliver({Role::kWorker, 7}, wire::Leave{wire::Leave::Outcome::kFailed, "forged"}, 1).empty());
  EXPECT_FALSE(scheduler_.Done());
}

TEST_F(SchedulerTest, HeartbeatsAreAnsweredWithTheEpoch) {
  Register(kWorker0);
  const auto sent = Deliver(kWorker0, wire::Heartbeat{});
  EXPECT_TRUE(sent.at(0).Is<wire::HeartbeatAck>());
  EXPECT_GT(sent.at(0).message.epoch, 0u);
}

TEST_F(SchedulerTest, ThatAWorkerWasAskedToEndIsToldToTheOthers) {
  JoinAll();
  const auto is_told = [&](const Node& node) {
    return Deliver(node, wire::Heartbeat{}).at(0).As<wire::HeartbeatAck>().asked_to_end;
  };
  EXPECT_FALSE(is_told(kWorker0));
  Deliver(kServer0, wire::Heartbeat{true});  // a server's means nothing
  EXPECT_FALSE(is_told(kWorker0));
  const auto sent = Deliver(kWorker1, wire::Heartbeat{true});
  ASSERT_EQ(PeersOf(sent), (std::vector{kWorker0.peer(), kWorker1.peer()}));  // at once
  for (const Sent& one : sent) EXPECT_TRUE(one.As<wire::HeartbeatAck>().asked_to_end);
  EXPECT_EQ(Deliver(kWorker1, wire::Heartbeat{true}).size(), 1u) << "once";
  EXPECT_TRUE(is_told(kWorker0)) << "should the first have been lost";
  EXPECT_FALSE(scheduler_.Done());
}

TEST_F(SchedulerTest, ARendezvousThatDoesNotHappenEndsNamingTheMissing) {
  Register(kServer0);
  for (int second = 5; second < 30; second += 5) {
    RunUntil(std::chrono::seconds(second));
    Deliver(kServer0, wire::Heartbeat{});
  }
  RunUntil(60s);
  ASSERT_TRUE(scheduler_.Done());
  EXPECT_EQ(scheduler_.outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(scheduler_.outcome().message, HasSubstr("missing server 1, worker 0, worker 1"));
  EXPECT_FALSE(network_.Take<wire::Stop>(kServer0.peer()).empty());
}

TEST_F(SchedulerTest, KeysAreKnownToAllServersBeforeAnyWorkerHearsOfThem) {
  JoinAll();
  const auto announced = Deliver(kWorker0, Declaration(), 21);
  EXPECT_THAT(PeersOf(announced), ElementsAre(kServer0.peer(), kServer1.peer()));
  const uint64_t relay = announced.at(0).message.id;
  EXPECT_EQ(announced[0].As<wire::AnnounceKeys>().entries.at(0).spec, Declaration().keys[0]);
  const auto told = Deliver(kWorker0, Declaration(), 21);  // a repeat meanwhile
  ASSERT_EQ(PeersOf(told), std::vector{kWorker0.peer()});
  EXPECT_EQ(told[0].message.in_reply_to, 21u);
  EXPECT_EQ(told[0].As<wire::StillWaiting>().missing, "server 0, server 1 to acknowledge");
  EXPECT_TRUE(Deliver(kServer1, wire::Ack{}, 0, relay).empty());
  EXPECT_TRUE(Deliver(kServer1, wire::Ack{}, 0, relay).empty());  // twice the same server
  EXPECT_THAT(scheduler_.DumpState(now_), HasSubstr("AnnounceKeys waits for server 0"));
  // Repeated to those who have not acknowledged.
  RunUntil(1500ms);
  EXPECT_THAT(PeersOf(network_.Take()), ElementsAre(kServer0.peer()));
  const auto answered = Deliver(kServer0, wire::Ack{}, 0, relay);
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].to, kWorker0.peer());
  EXPECT_EQ(answered[0].message.in_reply_to, 21u);
  EXPECT_EQ(answered[0].As<wire::KeyTable>().entries, announced[0].As<wire::AnnounceKeys>().entries);
  RunUntil(5s);
  EXPECT_TRUE(network_.Take().empty());
}

TEST_F(SchedulerTest, TwoWorkersThatDeclareTheSameGetTheSame) {
  JoinAll();
  const uint64_t first = Deliver(kWorker0, Declaration(), 1).at(0).message.id;
  const uint64_t second = Deliver(kWorker1, Declaration(), 1).at(0).message.id;
  const auto to_worker1 = AckBoth(second), to_worker0 = AckBoth(first);
  EXPECT_EQ(to_worker1.at(0).to, kWorker1.peer());
  EXPECT_EQ(to_worker1[0].As<wire::KeyTable>(), to_worker0.at(0).As<wire::KeyTable>());
}

TEST_F(SchedulerTest, AConflictingDeclarationIsAnErrorForItsSender) {
  JoinAll();
  AckBoth(Deliver(kWorker0, Declaration(), 1).at(0).message.id);
  const auto sent = Deliver(kWorker1, Declaration(DType::kFloat64), 2);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, kWorker1.peer());
  EXPECT_EQ(sent[0].message.in_reply_to, 2u);
  EXPECT_THAT(sent[0].As<wire::ErrorReply>().message, HasSubstr("worker 0"));
}

TEST_F(SchedulerTest, PartsOfADeclarationAreAcknowledgedAndServersHearOfTheWhole) {
  JoinAll();
  wire::DeclareKeys part = Declaration();
  const uint64_t keys = part.keys.size();
  part.part = {4, 0, keys + 1};
  const auto kept = Deliver(kWorker0, part, 41);
  ASSERT_EQ(kept.size(), 1u);  // to its sender alone
  EXPECT_TRUE(kept[0].Is<wire::Ack>());
  EXPECT_EQ(kept[0].message.in_reply_to, 41u);
  wire::DeclareKeys last = part;
  last.keys = {{"last", DType::kFloat32, Shape{1}}};
  last.part.first = keys;
  EXPECT_TRUE(Deliver(kWorker0, last, 42).at(0).Is<wire::Ack>());
  last.part = {};
  const auto announced = Deliver(kWorker0, last, 43);
  ASSERT_EQ(announced.size(), 2u);
  EXPECT_EQ(announced[0].As<wire::AnnounceKeys>().entries.at(0).id,
            keys);  // the number that the call gave it
  // A conflict is an error for its sender.
  wire::DeclareKeys other = last;
  other.keys[0].dtype = DType::kFloat64;
  other.part = {1, 0, 1};
  EXPECT_THAT(Deliver(kWorker1, other, 44).at(0).As<wire::ErrorReply>().message, HasSubstr("worker 0"));
}

TEST_F(SchedulerTest, TheOptimiserGoesToAllServersAndIsAnsweredOnce) {
  JoinAll();
  const wire::SetOptimizer request{.config = {.learning_rate = 0.5}, .first_rounds = {{0, 4}}};
  const auto relayed = Deliver(kWorker0, request, 31);
  EXPECT_THAT(PeersOf(relayed), ElementsAre(kServer0.peer(), kServer1.peer()));
  EXPECT_EQ(relayed[0].As<wire::SetOptimizer>(), request);
  EXPECT_TRUE(Deliver(kServer1, wire::Ack{}, 0, relayed[0].message.id).empty());
  const auto told = Deliver(kWorker0, request, 31);  // a repeat meanwhile
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].As<wire::StillWaiting>().missing, "server 0 to acknowledge");
  const auto answered = Deliver(kServer0, wire::Ack{}, 0, relayed[0].message.id);
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_TRUE(answered[0].Is<wire::Ack>());
  EXPECT_EQ(answered[0].message.in_reply_to, 31u);
  // The answer was lost: given again, without bothering the servers.
  const auto again = Deliver(kWorker0, request, 31);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].Is<wire::Ack>());
}

TEST_F(SchedulerTest, AWorkerThatConnectsAgainIsAnsweredOnItsNewConnection) {
  JoinAll();
  const wire::SetOptimizer request{.config = {.learning_rate = 0.5}};
  const auto relayed = Deliver(kWorker0, request, 31);
  const transport::PeerId reconnected{999};
  wire::Message repeat;
  repeat.sender = {Role::kWorker, 0, kWorker0.incarnation()};
  repeat.id = 31;
  repeat.body = request;
  scheduler_.OnMessage(now_, reconnected, repeat, network_);
  const auto told = network_.Take();
  ASSERT_EQ(told.size(), 1u);  // the servers are not asked a second time
  EXPECT_EQ(told[0].to, reconnected);
  EXPECT_TRUE(told[0].Is<wire::StillWaiting>());
  const auto answered = AckBoth(relayed.at(0).message.id);
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].to, reconnected);
  EXPECT_EQ(answered[0].message.in_reply_to, 31u);
  scheduler_.OnMessage(now_, reconnected, repeat, network_);  // the answer was lost
  EXPECT_TRUE(network_.Take().at(0).Is<wire::Ack>());
}

TEST_F(SchedulerTest, WhoAwaitsAnOptimiserIsAnsweredWhenOneStandsOnEveryServer) {
  JoinAll();
  const auto waiting = Deliver(kWorker1, wire::AwaitOptimizer{}, 5);
  EXPECT_THAT(waiting.at(0).As<wire::StillWaiting>().missing, HasSubstr("worker 0"));
  const auto relayed = Deliver(kWorker0, wire::SetOptimizer{}, 6);
  const uint64_t relay = relayed.at(0).message.id;
  EXPECT_TRUE(Deliver(kServer0, wire::Ack{}, 0, relay).empty());
  const auto answers = Deliver(kServer1, wire::Ack{}, 0, relay);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].to, kWorker1.peer());
  EXPECT_TRUE(answers[1].Is<wire::Ack>());
  EXPECT_EQ(answers[1].message.in_reply_to, 5u);
  EXPECT_TRUE(Deliver(kWorker1, wire::AwaitOptimizer{}, 7).at(0).Is<wire::Ack>());
}

TEST_F(SchedulerTest, EachStoreAwaitsItsOwnOptimiser) {
  JoinAll();
  Deliver(kWorker1, wire::AwaitOptimizer{1}, 5);
  Deliver(kWorker1, wire::AwaitOptimizer{2}, 6);
  const auto stands = [&](uint32_t store, uint64_t request) {
    return AckBoth(Deliver(kWorker0, wire::SetOptimizer{.store = store}, request).at(0).message.id);
  };
  EXPECT_THAT(PeersOf(stands(0, 7)), ElementsAre(kWorker0.peer()));
  const auto answers = stands(2, 8);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].message.in_reply_to, 6u);
  EXPECT_TRUE(Deliver(kWorker1, wire::AwaitOptimizer{1}, 9).at(0).Is<wire::StillWaiting>());
}

TEST_F(SchedulerTest, AnOptimiserIsCheckedAgainstTheKeysOfItsStore) {
  JoinAll();
  AckBoth(Deliver(kWorker0, Declaration(DType::kInt32), 3).at(0).message.id);
  EXPECT_TRUE(Deliver(kWorker0, wire::SetOptimizer{.store = 1}, 4).at(0).Is<wire::SetOptimizer>());
}

TEST_F(SchedulerTest, OnlySoundOptimisersOfWorkerZeroAreRelayed) {
  JoinAll();
  EXPECT_EQ(Deliver(kWorker1, wire::SetOptimizer{}, 1).at(0).As<wire::ErrorReply>().code,
            ErrorCode::kPermissionDenied);
  const wire::SetOptimizer unsound{.config = {.learning_rate = -1}};
  EXPECT_EQ(Deliver(kWorker0, unsound, 2).at(0).As<wire::ErrorReply>().code, ErrorCode::kInvalidArgument);
  AckBoth(Deliver(kWorker0, Declaration(DType::kInt32), 3).at(0).message.id);
  const auto refused = Deliver(kWorker0, wire::SetOptimizer{}, 4);
  ASSERT_EQ(refused.size(), 1u);  // no server has heard of it
  EXPECT_THAT(refused[0].As<wire::ErrorReply>().message, HasSubstr("key w is int32"));
}

TEST_F(SchedulerTest, AServersRefusalReachesWhoAsked) {
  JoinAll();
  const uint64_t relay = Deliver(kWorker0, wire::SetOptimizer{}, 8).at(0).message.id;
  Deliver(kServer0, wire::Ack{}, 0, relay);
  const auto sent =
      Deliver(kServer1, wire::ErrorReply{ErrorCode::kFailedPrecondition, "own updater"}, 0, relay);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.in_reply_to, 8u);
  EXPECT_EQ(sent[0].As<wire::ErrorReply>().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(sent[0].As<wire::ErrorReply>().message, HasSubstr("server 1"));
}

TEST_F(SchedulerTest, BarriersAnswerEachMembersOwnRequest) {
  JoinAll();
  const auto waiting = Deliver(kWorker1, wire::Barrier{.id = "b", .text = "no"}, 5);
  EXPECT_EQ(waiting.at(0).As<wire::StillWaiting>(), (wire::StillWaiting{"b", "worker 0"}));
  EXPECT_THAT(scheduler_.DumpState(now_), HasSubstr("barrier 'b': waiting for worker 0"));
  const auto released = Deliver(kWorker0, wire::Barrier{.id = "b", .text = "go on"}, 6);
  ASSERT_EQ(released.size(), 2u);
  for (const Sent& sent : released) {
    EXPECT_EQ(sent.As<wire::BarrierReleased>().text, "go on");  // the lowest worker's
    EXPECT_EQ(sent.message.in_reply_to, sent.to == kWorker1.peer() ? 5u : 6u);
  }
  // The answer was lost: given again, with the text.
  const auto again = Deliver(kWorker1, wire::Barrier{.id = "b", .text = "no"}, 5);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].As<wire::BarrierReleased>().text, "go on");
}

TEST_F(SchedulerTest, AnswersQuestionsAndRefusesTheRest) {
  JoinAll();
  EXPECT_EQ(Deliver(kServer0, wire::GetMembership{}).at(0).As<wire::Membership>().roster.size(), 4u);
  AckBoth(Deliver(kWorker0, Declaration(), 1).at(0).message.id);
  EXPECT_EQ(Deliver(kWorker0, wire::GetStats{}, 2).at(0).As<wire::Stats>().counters.at("keys"), 1u);
  const auto refused = Deliver(kWorker0, wire::Push{}, 3);
  EXPECT_THAT(refused.at(0).As<wire::ErrorReply>().message, HasSubstr("does not take Push"));
}

}  // namespace
}  // namespace sluice::scheduler
