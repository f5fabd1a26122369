// Tests server/control.h: what a server says to scheduler, workers and its shards. The test plays all three,
// in virtual time.
#include "server/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "unit/server/shard_harness.h"

namespace sluice::server {
namespace {

using sluice::testing::Accumulate;
using sluice::testing::RecordingNetwork;
using sluice::testing::Sent;
using sluice::testing::ShardHarness;
using ::testing::HasSubstr;
using wire::Role;

// Keeps what is posted until the test lets it run.
class HandLoop final : public transport::Loop {
 public:
  bool Post(Task task) override {
    tasks.push_back(std::move(task));
    return true;
  }
  const std::vector<std::string>& addresses() const override { return addresses_; }
  void Run(transport::Network& network) {
    while (!tasks.empty()) {
      Task task = std::move(tasks.front());
      tasks.pop_front();
      task(Time{}, network);
    }
  }
  std::deque<Task> tasks;

 private:
  std::vector<std::string> addresses_;
};

class ServerControl : public ::testing::Test {
 protected:
  ServerControl() {
    control_.OnStart(now_, network_);
    network_.Take();
  }

  void Deliver(wire::Body body, uint64_t id = 0, uint64_t in_reply_to = 0, uint64_t epoch = 1) {
    wire::Message message;
    message.sender = {Role::kScheduler, 0, 99};
    message.id = id;
    message.in_reply_to = in_reply_to;
    message.epoch = epoch;
    message.body = std::move(body);
    control_.OnMessage(now_, {1}, std::move(message), network_);
  }
  void Join() {
    Deliver(wire::Welcome{wire::Welcome::State::kComplete, 0, "", roster_});
    RunAll();
    network_.Take();
  }
  void RunAll() {
    for (HandLoop* loop : {&loops_[0], &loops_[1], &self_}) loop->Run(network_);
  }
  // What the scheduler hears.
  template <typename Body>
  std::vector<Body> Heard() {
    return network_.Take<Body>({1});
  }
  static wire::KeyEntry Entry(DType dtype = DType::kFloat32) {
    wire::KeyEntry entry = ShardHarness::EntryOf(0, dtype, 8, wire::SyncMode::kSync, 4);
    entry.slices = {{0, 0, 4}, {1, 4, 4}};
    return entry;
  }
  // A worker initialises the shard's part and pushes rounds of ones; returns the first weight.
  float WeightAfter(uint32_t shard, uint64_t round) {
    const Frame ones = sluice::testing::FrameOf(std::vector<float>(4, 1));
    const auto deliver = [&](wire::Body body, wire::Frames payload) {
      wire::Message message;
      message.sender = {Role::kWorker, 0, 1000};
      message.id = 1;
      message.body = std::move(body);
      message.payload = std::move(payload);
      shards_[shard].OnMessage(now_, {50}, std::move(message), network_);
    };
    deliver(wire::Store{.parts = {{.ref = {0, shard}}}}, {ones});
    network_.Take();
    deliver(wire::Push{.parts = {{{0, shard}, round, true}}}, {ones});
    return sluice::testing::ValuesOf<float>(network_.Take().at(0).message.payload[0]).at(0);
  }

  Time now_{};
  RecordingNetwork network_;
  std::vector<wire::NodeInfo> roster_ = {{.role = Role::kServer, .rank = 0, .incarnation = 7},
                                         {.role = Role::kWorker, .rank = 0, .incarnation = 1000}};
  Shard shards_[2] = {Shard({.thread = 0, .shards_per_server = 2}),
                      Shard({.thread = 1, .shards_per_server = 2})};
  HandLoop loops_[2], self_;
  Control control_{{.role = Role::kServer,
                    .incarnation = 7,
                    .scheduler_address = "tcp://a:1",
                    .num_workers = 1,
                    .num_servers = 1,
                    .shard_addresses = {"tcp://b:1", "tcp://b:2"}},
                   {{&loops_[0], &shards_[0]}, {&loops_[1], &shards_[1]}},
                   [this](auto task) { self_.Post(std::move(task)); }};
};

TEST_F(ServerControl, AcknowledgesKeysWhenEveryShardHasThem) {
  Join();
  Deliver(wire::AnnounceKeys{{Entry()}}, 5);
  loops_[0].Run(network_);
  self_.Run(network_);
  EXPECT_TRUE(network_.Take().empty());
  loops_[1].Run(network_);
  self_.Run(network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].Is<wire::Ack>());
  EXPECT_EQ(sent[0].message.in_reply_to, 5u);
  Deliver(wire::AnnounceKeys{{Entry()}}, 5);  // the Ack was lost
  RunAll();
  EXPECT_EQ(Heard<wire::Ack>().size(), 1u);
  EXPECT_EQ(WeightAfter(0, 1), 1);
  EXPECT_EQ(WeightAfter(1, 1), 1);
}

wire::Message FromScheduler(wire::Body body) {
  wire::Message message;
  message.sender = {Role::kScheduler, 0, 99};
  message.body = std::move(body);
  return message;
}

TEST_F(ServerControl, StartsAsManyShardsAsTheSchedulerSays) {
  std::vector<uint32_t> asked;
  const auto start = [&](uint32_t count) -> Result<Control::Shards> {
    asked.push_back(count);
    return Control::Shards{{{&loops_[0], &shards_[0]}, {&loops_[1], &shards_[1]}},
                           {"tcp://b:1", "tcp://b:2"}};
  };
  Control control({.role = Role::kServer, .incarnation = 7, .scheduler_address = "tcp://a:1"}, start,
                  [this](auto task) { self_.Post(std::move(task)); });
  control.OnStart(now_, network_);
  const transport::PeerId scheduler{2};  // the second that this network has
  control.OnMessage(now_, scheduler, FromScheduler(wire::Welcome{{}, 0, "server 1", {}, 0}), network_);
  EXPECT_TRUE(asked.empty());
  network_.Take();
  control.OnMessage(now_, scheduler, FromScheduler(wire::Welcome{{}, 0, "worker 0", {}, 2}), network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].As<wire::Register>().shard_addresses.size(), 2u);
  control.OnMessage(now_, scheduler, FromScheduler(wire::Welcome{{}, 0, "worker 0", {}, 2}), network_);
  EXPECT_EQ(asked, std::vector<uint32_t>{2});
}

TEST_F(ServerControl, TellsTheJobWhenItCannotStartItsShards) {
  const auto start = [](uint32_t) -> Result<Control::Shards> {
    return Fail(ErrorCode::kResourceExhausted, "no descriptors");
  };
  Control control({.role = Role::kServer, .incarnation = 7, .scheduler_address = "tcp://a:1"}, start,
                  [this](auto task) { self_.Post(std::move(task)); });
  control.OnStart(now_, network_);
  network_.Take();
  control.OnMessage(now_, {2}, FromScheduler(wire::Welcome{{}, 0, "worker 0", {}, 2}), network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].As<wire::Leave>().message, "no descriptors");
  EXPECT_EQ(control.outcome().reason, wire::Stop::Reason::kFailed);
}

TEST_F(ServerControl, LeavesAtOnceASchedulerThatNeverHeardOfIt) {
  control_.Fail(now_, "ended by a signal", network_);
  EXPECT_TRUE(control_.Done());
}

TEST_F(ServerControl, LeavesAtOnceWhenTheSchedulerHasHeardSoWhileTheJobAssembles) {
  Deliver(wire::Welcome{wire::Welcome::State::kWaiting, 0, "worker 0", {}});
  control_.Fail(now_, "ended by a signal", network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_TRUE(sent[0].Is<wire::Leave>());
  Deliver(wire::Ack{}, 0, sent[0].message.id + 1);
  EXPECT_FALSE(control_.Done());
  Deliver(wire::Ack{}, 0, sent[0].message.id);
  EXPECT_TRUE(control_.Done());
}

TEST_F(ServerControl, ShardsHearOfTheWorkersBeforeTheyHearOfKeys) {
  Deliver(wire::AnnounceKeys{{Entry()}}, 5);  // before the Welcome: to be repeated
  RunAll();
  EXPECT_TRUE(network_.Take().empty());
  Deliver(wire::Welcome{wire::Welcome::State::kComplete, 0, "", roster_});
  Deliver(wire::AnnounceKeys{{Entry()}}, 5);
  RunAll();
  EXPECT_EQ(Heard<wire::Ack>().size(), 1u);
  EXPECT_EQ(WeightAfter(1, 1), 1);
}

TEST_F(ServerControl, AShardsRefusalIsTheAnswer) {
  Join();
  Deliver(wire::AnnounceKeys{{Entry(DType::kInt32)}}, 5);
  Deliver(wire::SetOptimizer{.config = {.kind = OptimizerKind::kSgd}}, 6);
  RunAll();
  const auto errors = Heard<wire::ErrorReply>();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0].message, HasSubstr("int32"));
}

TEST_F(ServerControl, UnsoundKeysAreIgnored) {
  Join();
  wire::KeyEntry unsound = Entry();
  unsound.slices[1].shard = 2;  // there are two
  Deliver(wire::AnnounceKeys{{unsound}}, 5);
  RunAll();
  EXPECT_TRUE(network_.Take().empty());
}

TEST_F(ServerControl, ABelatedRepeatDoesNotUndoALaterOptimiser) {
  Join();
  Deliver(wire::AnnounceKeys{{Entry()}}, 1);
  Deliver(wire::SetOptimizer{.config = Accumulate(1)}, 2);
  Deliver(wire::SetOptimizer{.config = Accumulate(10)}, 3);
  Deliver(wire::SetOptimizer{.config = Accumulate(1)}, 2);
  RunAll();
  EXPECT_EQ(Heard<wire::Ack>().size(), 4u);
  EXPECT_EQ(WeightAfter(0, 1), 11);
}

TEST_F(ServerControl, AnotherStoresOptimiserMakesNoneBelated) {
  Join();
  Deliver(wire::AnnounceKeys{{Entry()}}, 1);
  Deliver(wire::SetOptimizer{.config = Accumulate(10), .store = 1}, 3);
  Deliver(wire::SetOptimizer{.config = Accumulate(1)}, 2);
  RunAll();
  EXPECT_EQ(WeightAfter(0, 1), 2);
}

TEST_F(ServerControl, ANewMembershipReachesTheShards) {
  Join();
  Deliver(wire::AnnounceKeys{{Entry()}}, 1);
  roster_[1].incarnation = 2000;
  Deliver(wire::Membership{roster_}, 0, 0, 2);
  RunAll();
  network_.Take();
  wire::Message former;
  former.sender = {Role::kWorker, 0, 1000};
  former.body = wire::GetStats{};
  shards_[0].OnMessage(now_, {50}, former, network_);
  EXPECT_TRUE(network_.Take().empty());
  former.sender.incarnation = 2000;
  shards_[0].OnMessage(now_, {50}, former, network_);
  EXPECT_EQ(network_.Take().size(), 1u);
}

TEST_F(ServerControl, ADeathThatEndsTheJobIsCountedAndClosesNoRound) {
  roster_.push_back({.role = Role::kWorker, .rank = 1, .incarnation = 1001});
  Join();
  Deliver(wire::AnnounceKeys{{Entry()}}, 1);
  RunAll();
  const Frame ones = sluice::testing::FrameOf(std::vector<float>(4, 1));
  const auto from_worker0 = [&](wire::Body body) {
    wire::Message message;
    message.sender = {Role::kWorker, 0, 1000};
    message.id = 1;
    message.body = std::move(body);
    message.payload = {ones};
    shards_[0].OnMessage(now_, {50}, std::move(message), network_);
  };
  from_worker0(wire::Store{.parts = {{.ref = {0, 0}}}});
  from_worker0(wire::Push{.parts = {{{0, 0}, 1, true}}});  // waits for worker 1
  network_.Take();
  EXPECT_EQ(control_.NumDead(), 0u);
  auto dead = roster_;
  dead[2].state = wire::NodeState::kDead;
  Deliver(wire::Stop{wire::Stop::Reason::kFailed, "worker 1 is dead", dead}, 0, 0, 2);
  RunAll();
  EXPECT_EQ(control_.NumDead(), 1u);
  EXPECT_TRUE(network_.Take<wire::Values>({50}).empty());
  EXPECT_TRUE(shards_[0].Done());
}

TEST_F(ServerControl, WaitsInBarriersOfServersAndOfAll) {
  Join();
  int released = 0;
  const auto done = [&](const Status& status) { released += status.ok() ? 1 : 100; };
  control_.Barrier(now_, wire::Barrier::Group::kServers, now_ + 60s, done, network_);
  control_.Barrier(now_, wire::Barrier::Group::kAll, now_ + 60s, done, network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].As<wire::Barrier>(),
            (wire::Barrier{"of the servers, 1", wire::Barrier::Group::kServers, {}}));
  EXPECT_EQ(sent[1].As<wire::Barrier>(),
            (wire::Barrier{membership::IdOfBarrierOfAll(1), wire::Barrier::Group::kAll, {}}));
  now_ += 1s;
  control_.OnTimer(now_, network_);
  EXPECT_EQ(Heard<wire::Barrier>().size(), 2u);  // until answered
  Deliver(wire::Ack{}, 0, sent[1].message.id);
  EXPECT_EQ(released, 1);
  Deliver(wire::Ack{}, 0, sent[1].message.id);  // twice
  EXPECT_EQ(released, 1);
  Deliver(wire::Ack{}, 0, sent[0].message.id);
  EXPECT_EQ(released, 2);
  EXPECT_FALSE(control_.Done());
}

TEST_F(ServerControl, ABarriersDeadlineAndTheDumpNameWhoIsMissing) {
  Join();
  Status ended;
  control_.Barrier(
      now_, wire::Barrier::Group::kServers, now_ + 3s, [&](const Status& status) { ended = status; },
      network_);
  const uint64_t id = network_.Take().at(0).message.id;
  Deliver(wire::StillWaiting{"of the servers, 1", "server 1"}, 0, id);
  EXPECT_THAT(control_.DumpState(now_), HasSubstr("barrier 'of the servers, 1': waiting for server 1"));
  while (ended.ok()) {
    now_ = std::max(now_, control_.NextTimer());
    ASSERT_LE(now_, Time{} + 3s);
    control_.OnTimer(now_, network_);
  }
  EXPECT_EQ(ended.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(ended.failure().message, HasSubstr("waiting for server 1"));
}

TEST_F(ServerControl, TheEndOfTheJobEndsWhatWaitsWithItsReason) {
  std::vector<Status> ends;
  const auto record = [&](const Status& status) { ends.push_back(status); };
  control_.WhenJoined(record);
  EXPECT_TRUE(ends.empty());
  Join();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_TRUE(ends[0].ok());
  control_.Barrier(now_, wire::Barrier::Group::kServers, now_ + 60s, record, network_);
  Deliver(wire::Stop{wire::Stop::Reason::kFailed, "worker 1 is dead"});
  control_.Barrier(now_, wire::Barrier::Group::kServers, now_ + 60s, record, network_);
  control_.WhenJoined(record);
  ASSERT_EQ(ends.size(), 4u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(ends[i].failure().code, ErrorCode::kUnavailable);
    EXPECT_EQ(ends[i].failure().message, "worker 1 is dead");
  }
}

TEST_F(ServerControl, StopEndsTheShardsAndSendsLeaveUntilItIsAnswered) {
  Join();
  Deliver(wire::Stop{wire::Stop::Reason::kFinished, "done"});
  RunAll();
  EXPECT_TRUE(shards_[0].Done());
  EXPECT_TRUE(shards_[1].Done());
  EXPECT_GT(shards_[1].Linger(), std::chrono::hours(1));
  EXPECT_EQ(Heard<wire::Leave>().size(), 1u);
  EXPECT_FALSE(control_.Done());
  now_ = control_.NextTimer();
  control_.OnTimer(now_, network_);
  const auto sent = network_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].As<wire::Leave>().outcome, wire::Leave::Outcome::kFinished);
  Deliver(wire::Ack{}, 0, sent[0].message.id);
  EXPECT_TRUE(control_.Done());
  EXPECT_EQ(control_.outcome().reason, wire::Stop::Reason::kFinished);
}

TEST_F(ServerControl, ALeaveThatNobodyAnswersEnds) {
  Join();
  control_.Fail(now_, "out of memory", network_);
  while (!control_.Done()) {
    now_ = control_.NextTimer();
    ASSERT_LT(now_, Time{} + 10s);
    control_.OnTimer(now_, network_);
  }
  const auto leaves = Heard<wire::Leave>();
  ASSERT_FALSE(leaves.empty());
  EXPECT_EQ(leaves[0], (wire::Leave{wire::Leave::Outcome::kFailed, "out of memory"}));
  EXPECT_EQ(control_.outcome().message, "out of memory");
}

TEST_F(ServerControl, ASilentSchedulerEndsTheServer) {
  Join();
  const Time last_heard = now_;
  while (!control_.Done()) {
    now_ = std::max(now_, control_.NextTimer());
    ASSERT_LE(now_, last_heard + membership::Options().heartbeat_timeout)
        << "it sends leave messages to the dead";
    control_.OnTimer(now_, network_);
    RunAll();
  }
  EXPECT_EQ(control_.outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(control_.outcome().message, HasSubstr("tcp://a:1"));
  EXPECT_TRUE(shards_[1].Done());
  EXPECT_EQ(shards_[1].Linger(), Duration::zero());
}

}  // namespace
}  // namespace sluice::server
