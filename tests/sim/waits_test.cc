// Workers that wait for others. They report for whom and for how long they wait, at growing intervals. A wait
// ends when the others have arrived, however late, unless its deadline comes first or a node dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

using std::chrono::hours;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const wire::KeySpec kSpec = {std::string("w"), DType::kFloat32, Shape{300}};

// A call on a worker's client, which calls `done` at its end.
using Call = std::function<void(worker::Client& client, Time now, Time deadline, transport::Network& network,
                                worker::Done done)>;

class Waits : public ::testing::Test {
 protected:
  Waits() : cluster_(Options()) { EXPECT_TRUE(cluster_.Join()); }

  SimClusterOptions Options() {
    SimClusterOptions options;
    options.on_waiting = [this](uint32_t worker, const std::string& line) { said_[worker].push_back(line); };
    return options;
  }
  void Issue(uint32_t worker, const Call& call, Duration timeout = kNoLimit) {
    cluster_.OnWorker(worker, [=, this](worker::Client& client, Time now, transport::Network& network) {
      call(client, now, DeadlineOf(now, timeout), network, [this, worker](const Status& status) {
        ended_[worker].push_back(status.ok() ? "ok" : status.failure().message);
      });
    });
  }
  bool Done(uint32_t worker, size_t calls = 1) { return ended_[worker].size() == calls; }
  // Issues `call` on all workers but `late`, and three hours later on `late`. Expects that worker 2 has
  // reported lines with `texts`, that all calls then succeed, and that the reports end.
  void ExpectPatience(const Call& call, uint32_t late, const std::vector<std::string>& texts) {
    for (uint32_t worker = 0; worker < 3; ++worker)
      if (worker != late) Issue(worker, call);
    cluster_.network().RunFor(hours(3));
    EXPECT_FALSE(Done(2));
    for (const std::string& text : texts) EXPECT_THAT(said_[2], Contains(HasSubstr(text)));
    ASSERT_FALSE(said_[2].empty());
    EXPECT_THAT(said_[2].front(), HasSubstr(", for 10 s so far: "));
    EXPECT_GE(said_[2].size(), 10u);
    EXPECT_LE(said_[2].size(), 30u);  // the intervals grow
    Issue(late, call);
    EXPECT_TRUE(cluster_.network().RunUntil([&] { return Done(0) && Done(1) && Done(2); },
                                            cluster_.network().now() + 60s));
    for (auto& [worker, ends] : ended_) EXPECT_EQ(ends.back(), "ok");
    const size_t lines = said_[2].size();
    cluster_.network().RunFor(hours(1));
    EXPECT_EQ(said_[2].size(), lines);  // it no longer waits
  }
  // Issues `call` on worker 2 alone, with a deadline. Expects an error with `texts`.
  void ExpectGivesUp(const Call& call, const std::vector<std::string>& texts) {
    Issue(2, call, 25s);
    cluster_.network().RunFor(30s);
    ASSERT_TRUE(Done(2));
    for (const std::string& text : texts) EXPECT_THAT(ended_[2].back(), HasSubstr(text));
    EXPECT_THAT(ended_[2].back(), AllOf(HasSubstr("was not done by its deadline"),
                                        HasSubstr("the limit is 25 s (SLUICE_OPERATION_TIMEOUT")));
    EXPECT_THAT(said_[2], Contains(HasSubstr("gives up after 25 s")));
  }

  // Initialises the key on all workers.
  void InitAll() {
    for (uint32_t worker = 0; worker < 3; ++worker) Issue(worker, Init());
    ASSERT_TRUE(cluster_.network().RunUntil([&] { return Done(0) && Done(1) && Done(2); },
                                            cluster_.network().now() + 60s));
    ended_.clear();
  }
  Call Init() {
    return [this](worker::Client& client, Time now, Time deadline, transport::Network& network,
                  worker::Done done) {
      client.Init(
          now, wire::SyncMode::kSync, {{kSpec, Frame::Copy(std::as_bytes(std::span(values_)))}}, deadline,
          [done](const auto& ids) { done(ids ? Status::Ok() : Status(ids.failure())); }, network);
    };
  }
  Call PushPull() {
    return [this](worker::Client& client, Time now, Time deadline, transport::Network& network,
                  worker::Done done) {
      client.Submit(now,
                    PushPullOf(0, Frame::Copy(std::as_bytes(std::span(values_))),
                               {std::as_writable_bytes(std::span(out_[client.session().rank()])), nullptr},
                               done, deadline),
                    network);
    };
  }
  static Call Barrier() {
    return
        [](worker::Client& client, Time now, Time deadline, transport::Network& network, worker::Done done) {
          client.requests().Barrier(
              now, {.id = "b", .group = wire::Barrier::Group::kWorkers, .ranks = {}, .text = {}}, deadline,
              done, network);
        };
  }
  // Worker 0 sets the optimiser; the other workers wait for that.
  static Call Optimizer() {
    return
        [](worker::Client& client, Time now, Time deadline, transport::Network& network, worker::Done done) {
          if (client.session().rank() == 0)
            return client.requests().SetOptimizer(now, {}, 0, deadline, done, network);
          client.requests().AwaitOptimizer(now, 0, deadline, done, network);
        };
  }

  std::map<uint32_t, std::vector<std::string>> said_, ended_;  // by worker
  std::vector<float> values_ = std::vector<float>(300, 1);
  std::vector<float> out_[3] = {values_, values_, values_};
  SimCluster cluster_;
};

TEST_F(Waits, AKeyThatRankZeroMakesHoursLater) {
  ExpectPatience(Init(), 0, {"waiting for worker 0 to initialise the key", "Init of key w"});
}
TEST_F(Waits, AKeyThatRankZeroNeverMakes) {
  ExpectGivesUp(Init(), {"Init of key w", "waiting for worker 0 to initialise the key"});
}

TEST_F(Waits, ARoundThatAWorkerPushesHoursLater) {
  InitAll();
  ExpectPatience(PushPull(), 1, {"waiting for worker 1, for 10 s so far: push_pull of key w, round 1"});
}
TEST_F(Waits, ARoundThatAWorkerNeverPushes) {
  InitAll();
  ExpectGivesUp(PushPull(), {"push_pull of key w, round 1", "waiting for worker 0, worker 1"});
}

TEST_F(Waits, ABarrierToWhichAWorkerComesHoursLater) {
  ExpectPatience(Barrier(), 1, {"waiting for worker 1, for 10 s so far: barrier 'b'"});
}
TEST_F(Waits, ABarrierToWhichNobodyElseComes) {
  ExpectGivesUp(Barrier(), {"barrier 'b'", "waiting for worker 0, worker 1"});
}

TEST_F(Waits, AnOptimiserThatRankZeroSetsHoursLater) {
  ExpectPatience(Optimizer(), 0,
                 {"waiting for worker 0 to set the optimiser, for 10 s so far: setting the optimiser"});
}
TEST_F(Waits, AnOptimiserThatRankZeroNeverSets) {
  ExpectGivesUp(Optimizer(), {"setting the optimiser", "waiting for worker 0 to set the optimiser"});
}

// Short waits, as in every training step, are not reported.
TEST_F(Waits, ShortOnesAreNotReported) {
  InitAll();
  for (size_t step = 1; step <= 20; ++step) {
    for (const uint32_t worker : {0, 2}) Issue(worker, PushPull());
    cluster_.network().RunFor(8s);
    Issue(1, PushPull());
    ASSERT_TRUE(cluster_.network().RunUntil([&] { return Done(0, step) && Done(1, step) && Done(2, step); },
                                            cluster_.network().now() + 1s));
  }
  for (const auto& [worker, lines] : said_) EXPECT_THAT(lines, IsEmpty());
}

// The worker that the others wait for dies. Waits without a deadline end with an error, too.
TEST_F(Waits, WithoutLimitEndWhenWhoeverIsWaitedForIsDead) {
  InitAll();
  for (const uint32_t worker : {0, 2}) Issue(worker, PushPull());
  cluster_.network().RunFor(hours(1));
  cluster_.KillWorker(1);
  cluster_.network().RunFor(30s);
  ASSERT_TRUE(Done(2));
  EXPECT_THAT(ended_[2].back(), HasSubstr("worker 1"));
}

}  // namespace
}  // namespace sluice::testing
