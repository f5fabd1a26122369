// The scheduler's parts on their own: roster, key table, barriers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/barriers.h"
#include "scheduler/job_key_table.h"
#include "scheduler/partial_declarations.h"
#include "scheduler/roster.h"

namespace sluice::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::NodeState;
using wire::Role;

struct Newcomer {
  Role role = Role::kWorker;
  uint64_t incarnation = 1;
  std::string identity;
  int32_t requested_rank = -1;
};

Result<Roster::Registration> Register(Roster& roster, const Newcomer& who, Time now = {},
                                      uint64_t answers = 0) {
  wire::Register request{.role = who.role,
                         .identity = who.identity,
                         .requested_rank = who.requested_rank,
                         .host = "h",
                         .pid = static_cast<uint32_t>(who.incarnation),
                         .num_workers = roster.num_workers(),
                         .num_servers = roster.num_servers()};
  if (who.role == Role::kServer) request.shard_addresses = {"tcp://h:1"};
  return roster.Register(now, {who.incarnation}, {who.role, 0, who.incarnation}, request, answers);
}
Result<Member*> Join(Roster& roster, const Newcomer& who, Time now = {}) {
  const auto registration = Register(roster, who, now);
  return registration ? Result<Member*>(registration.value().member) : registration.failure();
}
void MustJoin(Roster& roster, const Newcomer& who, Time now = {}) {
  ASSERT_TRUE(Join(roster, who, now).ok());
}
int RankOf(const Result<Member*>& member) {
  return member ? static_cast<int>(member.value()->info.rank) : -1;
}
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result ? "" : result.failure().message;
}

TEST(Roster, GivesRequestedRanksElseTheSmallestFree) {
  Roster roster(4, 1);
  EXPECT_EQ(RankOf(Join(roster, {.incarnation = 1, .requested_rank = 2})), 2);
  EXPECT_EQ(RankOf(Join(roster, {.incarnation = 2})), 0);
  EXPECT_EQ(RankOf(Join(roster, {.incarnation = 3, .requested_rank = 2})), 1);    // taken
  EXPECT_EQ(RankOf(Join(roster, {.incarnation = 4, .requested_rank = 99})), 3);   // no such rank
  EXPECT_EQ(RankOf(Join(roster, {.role = Role::kServer, .incarnation = 5})), 0);  // ranks are per role
  EXPECT_TRUE(roster.complete());
  EXPECT_THAT(MessageOf(Join(roster, {.incarnation = 6})), HasSubstr("already has its 4 workers"));
}

// A server that was told `set` key-owning threads, or nothing (0), and would take `offered`.
Result<Roster::Registration> RegisterServer(Roster& roster, uint64_t incarnation, uint32_t set,
                                            uint32_t offered, std::vector<std::string> addresses = {}) {
  const wire::Register request{.role = Role::kServer,
                               .host = "h",
                               .num_workers = roster.num_workers(),
                               .num_servers = roster.num_servers(),
                               .shard_addresses = std::move(addresses),
                               .server_threads = set,
                               .default_server_threads = offered};
  return roster.Register(Time{}, {incarnation}, {Role::kServer, 0, incarnation}, request);
}

TEST(Roster, ServersOfUnlikeMachinesRunAsManyThreadsAsTheSmallestOffers) {
  Roster roster(1, 3, std::nullopt);
  ASSERT_TRUE(RegisterServer(roster, 1, 0, 16).ok());
  ASSERT_TRUE(RegisterServer(roster, 2, 0, 2).ok());
  EXPECT_FALSE(roster.shards_per_server().has_value());
  ASSERT_TRUE(RegisterServer(roster, 3, 0, 8).ok());
  EXPECT_EQ(roster.shards_per_server(), 2u);
  MustJoin(roster, {.incarnation = 4});
  EXPECT_FALSE(roster.complete());
  EXPECT_THAT(roster.MissingText(), HasSubstr("the addresses of server 0"));
  for (uint64_t incarnation = 1; incarnation <= 3; ++incarnation)
    ASSERT_TRUE(RegisterServer(roster, incarnation, 0, 16, {"a", "b"}).ok());
  EXPECT_TRUE(roster.complete());
  EXPECT_EQ(roster.Infos()[2].shard_addresses, (std::vector<std::string>{"a", "b"}));
}

TEST(Roster, AServerThatWasToldANumberDecides) {
  Roster roster(1, 3, std::nullopt);
  ASSERT_TRUE(RegisterServer(roster, 1, 0, 16).ok());
  ASSERT_TRUE(RegisterServer(roster, 2, 3, 16).ok());
  EXPECT_EQ(roster.shards_per_server(), 3u);
  EXPECT_THAT(MessageOf(RegisterServer(roster, 3, 4, 16)),
              AllOf(HasSubstr("to run 4 key-owning threads"),
                    HasSubstr("server 1 (host h, pid 0) was told 3"), HasSubstr("SLUICE_SERVER_THREADS")));
  EXPECT_THAT(MessageOf(RegisterServer(roster, 1, 0, 16, {"a"})), HasSubstr("to run 1 key-owning thread,"));
}

TEST(Roster, TheSchedulersNumberComesBeforeWhatServersOffer) {
  Roster roster(1, 2, 5);
  ASSERT_TRUE(RegisterServer(roster, 1, 0, 16).ok());
  EXPECT_EQ(roster.shards_per_server(), 5u);
  EXPECT_THAT(MessageOf(RegisterServer(roster, 2, 2, 16)), HasSubstr("the scheduler was told 5"));
}

TEST(Roster, AHeartbeatThatIsTooSlowForTheSchedulerIsRefusedWithBothNumbers) {
  Roster roster(1, 1, 1, 10s);
  wire::Register request{.role = Role::kWorker, .host = "h", .num_workers = 1, .num_servers = 1};
  request.heartbeat_ms = 6000;
  const Status refused = [&] {
    const auto result = roster.Register(Time{}, {1}, {Role::kWorker, 0, 1}, request);
    return result ? Status::Ok() : Status(result.failure());
  }();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message,
              AllOf(HasSubstr("every 6 s (PS_HEARTBEAT_INTERVAL)"), HasSubstr("silent for 10 s")));
  request.heartbeat_ms = 5000;
  EXPECT_TRUE(roster.Register(Time{}, {1}, {Role::kWorker, 0, 1}, request).ok());
}

TEST(Roster, ARepeatIsTheSameMember) {
  Roster roster(2, 1);
  ASSERT_EQ(RankOf(Join(roster, {.incarnation = 1})), 0);
  const uint64_t epoch = roster.epoch();
  const auto again = Join(roster, {.incarnation = 1}, Time{} + 3s);
  EXPECT_EQ(RankOf(again), 0);
  EXPECT_EQ(again.value()->last_heard, Time{} + 3s);
  EXPECT_EQ(roster.members().size(), 1u);
  EXPECT_EQ(roster.epoch(), epoch);
}

using Standing = Roster::Standing;

// Claims the identity, and answers the question that follows.
Standing Claim(Roster& roster, const Newcomer& who) {
  const auto claim = Register(roster, who);
  EXPECT_TRUE(claim && claim.value().standing == Standing::kClaimant);
  return Register(roster, who, {}, claim.value().member->claim.challenge).value().standing;
}

TEST(Roster, AnIdentityKeepsItsRankAndFencesItsFormerProcesses) {
  Roster roster(3, 1);
  MustJoin(roster, {.incarnation = 1, .identity = "a"});
  ASSERT_EQ(RankOf(Join(roster, {.incarnation = 2, .identity = "b"})), 1);
  const Newcomer again{.incarnation = 3, .identity = "b", .requested_rank = 2};
  ASSERT_EQ(Claim(roster, again), Standing::kReturned);
  const uint64_t epoch = roster.epoch();
  Member& member = *roster.Find({Role::kWorker, 1, 2});
  roster.Replace(Time{} + 5s, member, {33}, {Role::kWorker, 0, 3},
                 {.role = Role::kWorker, .host = "i", .pid = 30});
  EXPECT_GT(roster.epoch(), epoch);
  EXPECT_EQ(roster.Find({Role::kWorker, 1, 2}), nullptr);
  EXPECT_EQ(roster.FindSuccessor({Role::kWorker, 1, 2}), &member);
  EXPECT_EQ(roster.FindSuccessor({Role::kServer, 1, 2}), nullptr);
  EXPECT_EQ(roster.Find({Role::kWorker, 1, 3}), &member);
  EXPECT_EQ(Roster::NameOf(member.info), "worker 1 (host i, pid 30)");
  EXPECT_EQ(member.peer, transport::PeerId{33});
  EXPECT_EQ(member.last_heard, Time{} + 5s);
  // Whatever still comes of the former process, also what it had proved.
  EXPECT_EQ(Register(roster, {.incarnation = 2, .identity = "b"}, {}, 1).value().standing,
            Standing::kReplaced);
  EXPECT_EQ(Register(roster, again).value().standing, Standing::kKnown);
  // The same name on a server is another place.
  EXPECT_EQ(RankOf(Join(roster, {.role = Role::kServer, .incarnation = 4, .identity = "b"})), 0);
}

TEST(Roster, ABelatedRegisterOfAProcessThatIsGoneTakesNoPlace) {
  Roster roster(2, 1);
  MustJoin(roster, {.incarnation = 5, .identity = "a"});
  const Newcomer gone{.incarnation = 4, .identity = "a"};  // started before 5, arrives after it, and again
  for (int copy = 0; copy < 3; ++copy)
    EXPECT_EQ(Register(roster, gone).value().standing, Standing::kClaimant);
  EXPECT_NE(roster.Find({Role::kWorker, 0, 5}), nullptr);
}

TEST(Roster, ABelatedAnswerIsNoneOnceAnotherProcessHasCome) {
  Roster roster(2, 1);
  MustJoin(roster, {.incarnation = 1, .identity = "a"});
  const Newcomer second{.incarnation = 2, .identity = "a"}, third{.incarnation = 3, .identity = "a"};
  const uint64_t asked = Register(roster, second).value().member->claim.challenge;
  const uint64_t asked_later = Register(roster, third).value().member->claim.challenge;
  EXPECT_NE(asked, asked_later);
  EXPECT_EQ(Register(roster, second, {}, asked).value().standing, Standing::kClaimant);
  EXPECT_EQ(Register(roster, third, {}, asked_later).value().standing, Standing::kClaimant);  // asked anew
  EXPECT_EQ(Claim(roster, second), Standing::kReturned);
}

TEST(Roster, AFinishedNodeIsNotTakenBack) {
  Roster roster(2, 1);
  MustJoin(roster, {.incarnation = 1, .identity = "a"});
  roster.SetState(*roster.Find({Role::kWorker, 0, 1}), NodeState::kFinished);
  EXPECT_THAT(MessageOf(Register(roster, {.incarnation = 2, .identity = "a"})),
              HasSubstr("worker 0 (host h, pid 1), which has finished"));
}

TEST(Roster, ADeadNodesPlaceIsThereForItsIdentity) {
  Roster roster(2, 1);
  MustJoin(roster, {.incarnation = 1, .identity = "a"});
  roster.SetState(*roster.Find({Role::kWorker, 0, 1}), NodeState::kDead);
  EXPECT_EQ(Claim(roster, {.incarnation = 2, .identity = "a"}), Standing::kReturned);
}

TEST(Roster, OtherJobsShapesAreRefused) {
  Roster roster(2, 1);
  wire::Register request{.role = Role::kWorker, .host = "h", .num_workers = 3, .num_servers = 1};
  const auto refused = [&](const wire::Register& r) {
    return MessageOf(roster.Register({}, {1}, {r.role, 0, 1}, r));
  };
  EXPECT_THAT(refused(request), HasSubstr("expects 3 workers and 1 servers, but this job has 2 and 1"));
  request = {.role = Role::kServer, .host = "h", .num_workers = 2, .num_servers = 1};
  request.shard_addresses = {"tcp://h:1", "tcp://h:2"};
  EXPECT_THAT(refused(request), HasSubstr("to run 2 key-owning threads, but the scheduler was told 1"));
  request.shard_addresses.clear();
  request.server_threads = 10000;
  EXPECT_THAT(refused(request), HasSubstr("10000 key-owning threads; at most 256"));
  request.server_threads = 0;
  request.role = Role::kScheduler;
  EXPECT_THAT(refused(request), HasSubstr("second scheduler"));
  EXPECT_TRUE(roster.members().empty());
}

TEST(Roster, TheSilentDieTogetherInOneEpoch) {
  Roster roster(3, 1);
  for (const uint64_t i : {1, 2, 3}) MustJoin(roster, {.incarnation = i}, Time{} + std::chrono::seconds(i));
  roster.SetState(*roster.Find({Role::kWorker, 0, 1}), NodeState::kFinished);  // may be silent for ever
  const uint64_t epoch = roster.epoch();
  EXPECT_TRUE(roster.ExpireSilent(Time{} + 5999ms, 4s).empty());
  EXPECT_EQ(roster.epoch(), epoch);
  EXPECT_EQ(roster.ExpireSilent(Time{} + 7s, 4s).size(), 2u);
  EXPECT_EQ(roster.epoch(), epoch + 1);
  EXPECT_TRUE(roster.ExpireSilent(Time{} + 70s, 4s).empty());
}

TEST(Roster, SaysWhoIsThereAndWhoIsMissing) {
  Roster roster(3, 2);
  EXPECT_EQ(roster.JoinedText(), "nobody");
  EXPECT_EQ(roster.MissingText(), "server 0, server 1, worker 0, worker 1, worker 2");
  MustJoin(roster, {.incarnation = 1, .requested_rank = 1});
  MustJoin(roster, {.role = Role::kServer, .incarnation = 2});
  EXPECT_EQ(roster.JoinedText(), "server 0 (host h, pid 2), worker 1 (host h, pid 1)");
  EXPECT_EQ(roster.MissingText(), "server 1, worker 0, worker 2");
  EXPECT_THAT(Roster(1000, 1).MissingText(), HasSubstr("worker 18 and 981 more"));
}

wire::KeySpec Spec(wire::KeyName name, Shape shape = {4}, DType dtype = DType::kFloat32) {
  return {std::move(name), dtype, std::move(shape)};
}

TEST(JobKeyTable, NumbersKeysInTheOrderDeclared) {
  JobKeyTable table({.num_shards = 2, .bigarray_bound = 100});
  const wire::DeclareKeys first{.keys = {Spec("b"), Spec("a", {200})}};
  EXPECT_THAT(table.Declare(first, "worker 0").value(), ElementsAre(0, 1));
  // Declared again in another order, with something new.
  const wire::DeclareKeys second{.keys = {Spec("c"), Spec("a", {200}), Spec("b")}};
  EXPECT_THAT(table.Declare(second, "worker 1").value(), ElementsAre(2, 1, 0));
  ASSERT_EQ(table.entries().size(), 3u);
  EXPECT_EQ(table.entries()[1].slices.size(), 2u);
  for (const wire::KeyEntry& entry : table.entries()) EXPECT_EQ(plan::InvalidReason(entry, 2), "");
}

wire::DeclareKeys PartOf(uint64_t call, uint64_t first, uint64_t total, std::vector<wire::KeySpec> keys) {
  return {wire::SyncMode::kSync, std::move(keys), {call, first, total}};
}

TEST(PartialDeclarations, AllKeysOfACallAreTakenOrNone) {
  JobKeyTable table({.num_shards = 1});
  ASSERT_TRUE(table.Declare({.keys = {Spec("taken", {7})}}, "worker 1").ok());
  PartialDeclarations partial;
  const auto add = [&](const wire::DeclareKeys& part) { return partial.Add(5, part, "worker 0", &table); };
  EXPECT_TRUE(add(PartOf(1, 0, 3, {Spec("a"), Spec("b")})).ok());
  EXPECT_EQ(table.entries().size(), 1u);
  const Status refused = add(PartOf(1, 2, 3, {Spec("taken")}));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("worker 1 declared"));
  EXPECT_EQ(table.entries().size(), 1u);
  EXPECT_EQ(add(PartOf(1, 2, 3, {Spec("taken")})).failure().message, refused.failure().message);

  // Another call of the same worker; parts come again, also belated ones of the call before.
  EXPECT_TRUE(add(PartOf(9, 0, 3, {Spec("a"), Spec("b")})).ok());
  EXPECT_TRUE(add(PartOf(9, 0, 3, {Spec("a"), Spec("b")})).ok());
  EXPECT_TRUE(add(PartOf(1, 0, 3, {Spec("a"), Spec("b")})).ok());
  EXPECT_EQ(table.entries().size(), 1u);
  for (int again = 0; again < 2; ++again) EXPECT_TRUE(add(PartOf(9, 2, 3, {Spec("c", {5})})).ok());
  ASSERT_EQ(table.entries().size(), 4u);
  EXPECT_EQ(table.entries()[3].spec, Spec("c", {5}));
}

TEST(PartialDeclarations, CallsOfSeveralWorkersDoNotMix) {
  JobKeyTable table({.num_shards = 1});
  PartialDeclarations partial;
  EXPECT_TRUE(partial.Add(5, PartOf(1, 0, 2, {Spec("a")}), "worker 0", &table).ok());
  EXPECT_TRUE(partial.Add(6, PartOf(1, 0, 2, {Spec("b")}), "worker 1", &table).ok());
  EXPECT_TRUE(partial.Add(6, PartOf(1, 1, 2, {Spec("a")}), "worker 1", &table).ok());
  EXPECT_EQ(table.entries().size(), 2u);
  EXPECT_TRUE(partial.Add(5, PartOf(1, 1, 2, {Spec("b")}), "worker 0", &table).ok());
  EXPECT_EQ(table.entries().size(), 2u);
}

TEST(PartialDeclarations, WhatDoesNotFitIsRefused) {
  JobKeyTable table({.num_shards = 1});
  PartialDeclarations partial;
  const auto refused = [&](const wire::DeclareKeys& part) {
    return !partial.Add(5, part, "worker 0", &table).ok();
  };
  EXPECT_TRUE(refused(PartOf(1, 1, 3, {Spec("a")})));  // a gap
  EXPECT_TRUE(refused(PartOf(2, 0, 1, {Spec("a"), Spec("b")})));
  EXPECT_TRUE(refused(PartOf(3, 0, 1, {})));
  EXPECT_TRUE(refused(PartOf(4, 0, PartialDeclarations::kMostKeys + 1, {Spec("a")})));
  EXPECT_TRUE(refused(PartOf(5, UINT64_MAX, 3, {Spec("a")})));
  ASSERT_FALSE(refused(PartOf(6, 0, 2, {Spec("a")})));
  wire::DeclareKeys other_mode = PartOf(6, 1, 2, {Spec("b")});
  other_mode.mode = wire::SyncMode::kAsync;
  EXPECT_TRUE(refused(other_mode));
  EXPECT_TRUE(table.entries().empty());
}

TEST(JobKeyTable, ADifferentDeclarationNamesBothAndWhoWasFirst) {
  JobKeyTable table({.num_shards = 1});
  ASSERT_TRUE(table.Declare({.keys = {Spec("w", {2, 3})}}, "worker 0").ok());
  const auto refused = [&](const wire::DeclareKeys& request) {
    const auto result = table.Declare(request, "worker 4");
    EXPECT_TRUE(!result && result.failure().code == ErrorCode::kAlreadyExists);
    return MessageOf(result);
  };
  EXPECT_EQ(refused({.keys = {Spec("w", {3, 2})}}),
            "key w: worker 4 declares float32 [3, 2] (sync), but worker 0 declared float32 [2, 3] (sync)");
  EXPECT_THAT(refused({.keys = {Spec("w", {2, 3}, DType::kFloat16)}}), HasSubstr("float16 [2, 3]"));
  EXPECT_THAT(refused({.mode = wire::SyncMode::kAsync, .keys = {Spec("w", {2, 3})}}), HasSubstr("(async)"));
}

TEST(JobKeyTable, IntegerAndStringKeysDoNotMix) {
  JobKeyTable table({.num_shards = 1});
  EXPECT_THAT(MessageOf(table.Declare({.keys = {Spec(int64_t{3}), Spec("3")}}, "worker 0")),
              HasSubstr("integer and string keys together"));
  EXPECT_TRUE(table.entries().empty());
  ASSERT_TRUE(table.Declare({.keys = {Spec(int64_t{3})}}, "worker 0").ok());
  EXPECT_THAT(MessageOf(table.Declare({.keys = {Spec("3")}}, "worker 1")), HasSubstr("do not mix"));
}

TEST(JobKeyTable, StoresHaveNamesOfTheirOwn) {
  JobKeyTable table({.num_shards = 1});
  const auto in_store = [](uint32_t store, wire::KeySpec spec) {
    spec.store = store;
    return spec;
  };
  ASSERT_TRUE(table.Declare({.keys = {Spec("w")}}, "worker 0").ok());
  // Another shape, mode and kind of name.
  const wire::DeclareKeys second{.mode = wire::SyncMode::kAsync, .keys = {in_store(1, Spec("w", {5}))}};
  EXPECT_THAT(table.Declare(second, "worker 0").value(), ElementsAre(1));
  EXPECT_THAT(table.Declare(second, "worker 1").value(), ElementsAre(1));
  EXPECT_THAT(table.Declare({.keys = {in_store(2, Spec(int64_t{7}))}}, "worker 0").value(), ElementsAre(2));
  EXPECT_THAT(MessageOf(table.Declare({.keys = {in_store(1, Spec("w", {5}))}}, "worker 1")),
              HasSubstr("key w of store 1: worker 1 declares float32 [5] (sync), but worker 0"));
  EXPECT_THAT(MessageOf(table.Declare({.keys = {in_store(2, Spec("w"))}}, "worker 1")),
              HasSubstr("do not mix in one store"));
}

TEST(JobKeyTable, ARefusedDeclarationLeavesNothingBehind) {
  JobKeyTable table({.num_shards = 1});
  ASSERT_TRUE(table.Declare({.keys = {Spec("w")}}, "worker 0").ok());
  EXPECT_FALSE(table.Declare({.keys = {Spec("new"), Spec("w", {5})}}, "worker 1").ok());
  EXPECT_EQ(table.entries().size(), 1u);
}

TEST(JobKeyTable, AKeyTwiceInOneDeclarationMustAgreeWithItself) {
  JobKeyTable table({.num_shards = 1});
  EXPECT_THAT(table.Declare({.keys = {Spec("a"), Spec("a")}}, "worker 0").value(), ElementsAre(0, 0));
  EXPECT_FALSE(table.Declare({.keys = {Spec("b"), Spec("b", {5})}}, "worker 0").ok());
}

Barriers::Waiter Of(uint32_t rank, uint64_t request, Role role = Role::kWorker) {
  return {.member = {role, rank}, .peer = {rank}, .request_id = request};
}

TEST(Barriers, ReleaseWhenAllHaveArrived) {
  const Roster roster(3, 1);
  Barriers barriers;
  const wire::Barrier barrier{.id = "x"};
  EXPECT_EQ(barriers.Arrive(barrier, Of(2, 10), roster).value().missing, "worker 0, worker 1");
  EXPECT_EQ(barriers.Arrive(barrier, Of(0, 11), roster).value().missing, "worker 1");
  EXPECT_EQ(barriers.Arrive(barrier, Of(0, 12), roster).value().missing, "worker 1");  // a repeat
  EXPECT_EQ(barriers.Describe(), "barrier 'x': waiting for worker 1\n");
  const auto last = barriers.Arrive(barrier, Of(1, 13), roster).value();
  ASSERT_TRUE(last.released);
  std::vector<uint64_t> requests;
  for (const auto& waiter : last.waiters) requests.push_back(waiter.request_id);
  EXPECT_THAT(requests, ElementsAre(12, 13, 10));
  EXPECT_EQ(barriers.Describe(), "");
}

TEST(Barriers, ARepeatWhoseReleaseWasLostIsReleasedAgainAlone) {
  const Roster roster(2, 1);
  Barriers barriers;
  for (const uint32_t rank : {0u, 1u}) ASSERT_TRUE(barriers.Arrive({.id = "1"}, Of(rank, 1), roster).ok());
  const auto repeat = barriers.Arrive({.id = "1"}, Of(0, 1), roster).value();
  EXPECT_TRUE(repeat.released);
  EXPECT_EQ(repeat.waiters.size(), 1u);
  EXPECT_FALSE(barriers.Arrive({.id = "2"}, Of(0, 2), roster).value().released);
}

TEST(Barriers, GroupsWaitForTheirMembersOnly) {
  const Roster roster(3, 2);
  Barriers barriers;
  using Group = wire::Barrier::Group;
  const wire::Barrier servers{.id = "s", .group = Group::kServers};
  EXPECT_FALSE(barriers.Arrive(servers, Of(0, 1, Role::kServer), roster).value().released);
  EXPECT_TRUE(barriers.Arrive(servers, Of(1, 1, Role::kServer), roster).value().released);
  const wire::Barrier all{.id = "a", .group = Group::kAll};
  EXPECT_EQ(barriers.Arrive(all, Of(0, 1, Role::kServer), roster).value().missing,
            "server 1, worker 0, worker 1, worker 2");
  const wire::Barrier ranks{.id = "r", .group = Group::kRanks, .ranks = {0, 2}};
  EXPECT_EQ(barriers.Arrive(ranks, Of(0, 1), roster).value().missing, "worker 2");
  EXPECT_TRUE(barriers.Arrive(ranks, Of(2, 1), roster).value().released);
}

TEST(Barriers, NobodyWaitsForAWorkerThatHasLeft) {
  Roster roster(3, 1);
  for (const uint64_t rank : {0u, 1u, 2u}) MustJoin(roster, {.incarnation = rank + 1});
  Barriers barriers;
  const wire::Barrier ranks{.id = "r", .group = wire::Barrier::Group::kRanks, .ranks = {0, 1}};
  ASSERT_TRUE(barriers.Arrive(ranks, Of(1, 4), roster).ok());
  for (const uint32_t rank : {1u, 2u}) ASSERT_TRUE(barriers.Arrive({.id = "x"}, Of(rank, 5), roster).ok());
  EXPECT_TRUE(barriers.TakeUnsatisfiable(roster).empty());
  roster.SetState(*roster.Find({Role::kWorker, 1, 2}), NodeState::kFinished);  // has arrived in all
  EXPECT_TRUE(barriers.TakeUnsatisfiable(roster).empty());
  roster.SetState(*roster.Find({Role::kWorker, 0, 1}), NodeState::kFinished);
  const auto told = barriers.TakeUnsatisfiable(roster);
  ASSERT_EQ(told.size(), 3u);
  for (const auto& [waiter, failure] : told) {
    EXPECT_EQ(failure.code, ErrorCode::kUnavailable);
    EXPECT_THAT(failure.message, HasSubstr("worker 0 has left the job"));
  }
  EXPECT_EQ(barriers.Describe(), "");
  EXPECT_THAT(MessageOf(barriers.Arrive({.id = "later"}, Of(2, 6), roster)), HasSubstr("worker 0 has left"));
  EXPECT_EQ(barriers.Describe(), "");
  // Servers hear of the job's end.
  const wire::Barrier all{.id = "all", .group = wire::Barrier::Group::kAll};
  EXPECT_TRUE(barriers.Arrive(all, Of(0, 1, Role::kServer), roster).ok());
}

TEST(Barriers, NonMembersAndOtherMemberListsAreErrors) {
  const Roster roster(3, 1);
  Barriers barriers;
  const wire::Barrier ranks{.id = "r", .group = wire::Barrier::Group::kRanks, .ranks = {0, 2}};
  EXPECT_EQ(MessageOf(barriers.Arrive(ranks, Of(1, 1), roster)),
            "barrier 'r': worker 1 is not one of its members, worker 0, worker 2");
  EXPECT_EQ(barriers.Describe(), "");  // nobody waits for what an unknown sender asked
  ASSERT_TRUE(barriers.Arrive(ranks, Of(0, 1), roster).ok());
  wire::Barrier others = ranks;
  others.ranks = {0, 1, 2};
  EXPECT_EQ(MessageOf(barriers.Arrive(others, Of(2, 1), roster)),
            "barrier 'r': worker 2 waits in it with worker 0, worker 1, worker 2, but others do with worker "
            "0, worker 2");
  others.ranks = {2, 0, 2};  // the same set
  EXPECT_TRUE(barriers.Arrive(others, Of(2, 2), roster).value().released);
  others = {.id = "s", .group = wire::Barrier::Group::kRanks, .ranks = {0, 3}};
  EXPECT_EQ(MessageOf(barriers.Arrive(others, Of(0, 3), roster)),
            "barrier 's': there is no worker 3; the job has 3");
  others = {.id = "t", .group = wire::Barrier::Group::kServers};
  EXPECT_THAT(MessageOf(barriers.Arrive(others, Of(0, 4), roster)),
              HasSubstr("worker 0 is not one of its members"));
}

// The threads of a node may each wait in a barrier.
TEST(Barriers, AReleaseIsGivenAgainAfterALaterOne) {
  const Roster roster(2, 1);
  Barriers barriers;
  for (const std::string id : {"1", "2", "3"}) {
    for (const uint32_t rank : {0u, 1u}) ASSERT_TRUE(barriers.Arrive({.id = id}, Of(rank, 1), roster).ok());
  }
  EXPECT_TRUE(barriers.Arrive({.id = "1"}, Of(0, 1), roster).value().released);
  EXPECT_EQ(barriers.Describe(), "");
}

}  // namespace
}  // namespace sluice::scheduler
