// Death of a node, in simulated jobs: all other nodes learn its name within the heartbeat timeout, and their
// waiting operations fail. Also the orderly end of a job and barriers of all nodes, while messages are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/rounds.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;

// Every worker pushes a key and waits for a round that never closes because of `kill`. Returns by worker the
// error that ended the wait.
std::vector<std::string> FailuresAfter(const std::function<void(SimCluster&)>& kill) {
  SimClusterOptions options;
  options.workers = 3;
  options.servers = 2;
  SimCluster cluster(options);
  EXPECT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  kill(cluster);
  std::vector<std::string> heard(options.workers);
  std::vector<float> gradient(300), out(300);
  for (uint32_t w = 0; w < options.workers; ++w) {
    cluster.OnWorker(w, [&, w](worker::Client& client, Time now, transport::Network& network) {
      const auto done = [&heard, w](const Status& status) {
        heard[w] = status.ok() ? "ok" : status.failure().message;
      };
      client.Submit(now,
                    PushPullOf(1, Frame(std::as_bytes(std::span(gradient)), nullptr),
                               {std::as_writable_bytes(std::span(out)), nullptr}, done),
                    network);
    });
  }
  cluster.network().RunFor(options.heartbeat_timeout + 3s);
  return heard;
}

TEST(SimDeath, OfAWorker) {
  const auto heard = FailuresAfter([](SimCluster& cluster) { cluster.KillWorker(1); });
  EXPECT_NE(heard[0].find("worker 1"), std::string::npos) << heard[0];
  EXPECT_NE(heard[2].find("worker 1"), std::string::npos) << heard[2];
}

TEST(SimDeath, OfAServer) {
  for (const std::string& text : FailuresAfter([](SimCluster& cluster) { cluster.KillServer(1); })) {
    EXPECT_TRUE(text == "ok" || text.find("server 1") != std::string::npos) << text;
  }
  const auto heard = FailuresAfter([](SimCluster& cluster) {
    cluster.KillServer(0);
    cluster.KillServer(1);
  });
  for (const std::string& text : heard) EXPECT_NE(text.find("server "), std::string::npos) << text;
}

// Nodes of every role count the dead node, whether a worker or a server has died, even if messages are lost.
TEST(SimDeath, IsCountedOnEveryRole) {
  for (const auto& [victim, is_server] : {std::pair{2u, false}, std::pair{1u, true}}) {
    SimClusterOptions options;
    options.workers = 3;
    options.servers = 2;
    options.faults = {.drop = 0.05, .duplicate = 0.05, .reorder = 0.1};
    SimCluster cluster(options);
    ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
    for (uint32_t w = 0; w < options.workers; ++w) EXPECT_EQ(cluster.client(w).session().NumDead(), 0u);
    is_server ? cluster.KillServer(victim) : cluster.KillWorker(victim);
    cluster.network().RunFor(options.heartbeat_timeout + 3s);
    const std::string name = StrCat(is_server ? "server " : "worker ", victim);
    EXPECT_EQ(cluster.scheduler().NumDead(), 1u);
    EXPECT_NE(cluster.scheduler().outcome().message.find(name), std::string::npos);
    for (uint32_t w = 0; w < options.workers; ++w) {
      if (!is_server && w == victim) continue;
      EXPECT_EQ(cluster.client(w).session().NumDead(), 1u) << "worker " << w;
      ASSERT_TRUE(cluster.client(w).session().failure()) << "worker " << w;
      EXPECT_NE(cluster.client(w).session().failure()->message.find(name), std::string::npos);
    }
    for (uint32_t s = 0; s < options.servers; ++s) {
      if (is_server && s == victim) continue;
      EXPECT_EQ(cluster.control(s).NumDead(), 1u) << "server " << s;
      EXPECT_EQ(cluster.control(s).outcome().reason, wire::Stop::Reason::kFailed);
    }
  }
}

TEST(SimDeath, OfTheScheduler) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  cluster.KillScheduler();
  cluster.network().RunFor(options.heartbeat_timeout);
  for (uint32_t w = 0; w < options.workers; ++w) {
    ASSERT_TRUE(cluster.client(w).session().failure().has_value());
    EXPECT_NE(cluster.client(w).session().failure()->message.find("the scheduler at sim://0"),
              std::string::npos);
    EXPECT_EQ(cluster.client(w).session().NumDead(), 1u);
  }
  for (uint32_t s = 0; s < options.servers; ++s) {
    EXPECT_TRUE(cluster.control(s).Done()) << "it still sends leave messages to the dead";
    EXPECT_EQ(cluster.control(s).outcome().reason, wire::Stop::Reason::kFailed);
  }
}

TEST(SimDeath, TheOthersEndTheirLoops) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  cluster.KillWorker(2);
  cluster.network().RunFor(options.heartbeat_timeout + 20s);
  EXPECT_TRUE(cluster.scheduler_loop().ended());
  EXPECT_EQ(cluster.scheduler().outcome().reason, wire::Stop::Reason::kFailed);
  for (uint32_t s = 0; s < options.servers; ++s) EXPECT_TRUE(cluster.control(s).Done());
}

TEST(SimEnd, AJobWhoseWorkersAllLeaveEndsInOrder) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  size_t left = 0;
  for (uint32_t w = 0; w < options.workers; ++w) {
    cluster.OnWorker(w, [&](worker::Client& client, Time now, transport::Network& network) {
      client.session().Leave(
          now, {}, now + 5s, [&](const Status& status) { left += status.ok() ? 1 : 0; }, network);
    });
  }
  cluster.network().RunFor(5s);
  EXPECT_EQ(left, options.workers);
  EXPECT_TRUE(cluster.scheduler_loop().ended());
  EXPECT_EQ(cluster.scheduler().outcome().reason, wire::Stop::Reason::kFinished);
  for (uint32_t s = 0; s < options.servers; ++s)
    EXPECT_EQ(cluster.control(s).outcome().reason, wire::Stop::Reason::kFinished);
}

// All workers leave in good order. Returns by worker the result of its Leave.
std::vector<std::string> LeaveAll(SimCluster& cluster, const SimClusterOptions& options) {
  std::vector<std::string> heard(options.workers, "nothing");
  for (uint32_t w = 0; w < options.workers; ++w) {
    cluster.OnWorker(w, [&heard, &options, w](worker::Client& client, Time now, transport::Network& network) {
      client.session().Leave(
          now, {}, now + options.heartbeat_timeout + 5s,
          [&heard, w](const Status& status) { heard[w] = status.ok() ? "ok" : status.failure().message; },
          network);
    });
  }
  cluster.network().RunFor(options.heartbeat_timeout + 6s);
  return heard;
}

TEST(SimDeath, OfAServerAfterTheLastRound) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  cluster.KillServer(1);
  EXPECT_THAT(LeaveAll(cluster, options), Each(HasSubstr("server 1 (")));
  EXPECT_EQ(cluster.scheduler().outcome().reason, wire::Stop::Reason::kFailed);
  EXPECT_THAT(cluster.scheduler().outcome().message, HasSubstr("server 1 ("));
}

TEST(SimDeath, OfTheSchedulerAfterTheLastRound) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  cluster.KillScheduler();
  EXPECT_THAT(LeaveAll(cluster, options), Each(HasSubstr("the scheduler at sim://0")));
}

TEST(SimEnd, IsInOrderWhateverIsLost) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimClusterOptions options;
    options.seed = seed;
    SimCluster cluster(options);
    ASSERT_TRUE(RunRounds(cluster, {.rounds = 1}).completed);
    cluster.network().SetFaults({.drop = 0.2, .duplicate = 0.1, .reorder = 0.2});
    EXPECT_THAT(LeaveAll(cluster, options), Each(Eq("ok"))) << "seed " << seed;
    EXPECT_EQ(cluster.scheduler().outcome().reason, wire::Stop::Reason::kFinished) << "seed " << seed;
  }
}

TEST(SimDeath, AWorkerThatFailsTakesTheJobWithItAtOnce) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 3}).completed);
  cluster.OnWorker(0, [](worker::Client& client, Time now, transport::Network& network) {
    client.session().Leave(
        now, {wire::Leave::Outcome::kFailed, "out of data"}, now + 5s, [](const Status&) {}, network);
  });
  cluster.network().RunFor(2s);
  ASSERT_TRUE(cluster.client(1).session().failure().has_value());
  EXPECT_NE(cluster.client(1).session().failure()->message.find("worker 0"), std::string::npos);
  EXPECT_NE(cluster.client(1).session().failure()->message.find("out of data"), std::string::npos);
}

TEST(SimBarrier, ADeadlineNamesWhoIsMissing) {
  SimClusterOptions options;
  SimCluster cluster(options);
  ASSERT_TRUE(cluster.Join());
  std::string heard;
  for (const uint32_t w : {0u, 2u}) {
    cluster.OnWorker(w, [&](worker::Client& client, Time now, transport::Network& network) {
      client.requests().Barrier(
          now, {.id = "b", .group = wire::Barrier::Group::kWorkers, .ranks = {}}, now + 5s,
          [&](const Status& status) { heard = status.ok() ? "ok" : status.failure().message; }, network);
    });
  }
  cluster.network().RunFor(10s);
  EXPECT_NE(heard.find("worker 1"), std::string::npos) << heard;
  EXPECT_EQ(heard.find("worker 0"), std::string::npos) << heard;
}

// Each node waits in ten barriers of all nodes, one after the other, while messages are lost. No node passes
// the n-th barrier before all nodes have reached it.
TEST(SimBarrier, OfAllWorkersAndServersHoldsUnderFaults) {
  constexpr int kBarriers = 10;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimClusterOptions options;
    options.seed = seed;
    options.faults = {.drop = 0.1, .duplicate = 0.2, .reorder = 0.3, .min_delay = 1ms, .max_delay = 300ms};
    SimCluster cluster(options);
    ASSERT_TRUE(cluster.Join());
    const uint32_t nodes = options.workers + options.servers;
    std::vector<int> arrived(nodes);
    size_t finished = 0;
    std::function<void(uint32_t)> next = [&](uint32_t node) {
      if (arrived[node] == kBarriers) return void(++finished);
      const int number = ++arrived[node];
      const auto passed = [&, node, number](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.failure().message;
        for (const int others : arrived) EXPECT_GE(others, number) << "seed " << seed;
        if (status.ok()) next(node);
      };
      constexpr auto kAll = wire::Barrier::Group::kAll;
      if (node < options.workers) {
        cluster.OnWorker(node, [passed](worker::Client& client, Time now, transport::Network& network) {
          client.requests().Barrier(now, {.id = "", .group = kAll, .ranks = {}}, now + 600s, passed, network);
        });
      } else {
        cluster.OnServer(node - options.workers,
                         [passed](server::Control& control, Time now, transport::Network& network) {
                           control.Barrier(now, kAll, now + 600s, passed, network);
                         });
      }
    };
    for (uint32_t node = 0; node < nodes; ++node) next(node);
    EXPECT_TRUE(cluster.network().RunUntil([&] { return finished == nodes; }, cluster.network().now() + 600s))
        << "seed " << seed << cluster.network().LogText();
  }
}

// The deadline comes long before the resend timeout.
TEST(SimPull, ADeadlineAndTheDumpNameWhoHasNotPushed) {
  SimClusterOptions options;
  options.resend_timeout = 60s;
  SimCluster cluster(options);
  ASSERT_TRUE(RunRounds(cluster, {.rounds = 1}).completed);
  std::string heard;
  std::vector<float> gradient(300), out(300);
  for (const uint32_t w : {0u, 1u}) {
    cluster.OnWorker(w, [&](worker::Client& client, Time now, transport::Network& network) {
      const auto done = [&](const Status& status) { heard = status.ok() ? "ok" : status.failure().message; };
      client.Submit(now,
                    PushPullOf(1, Frame(std::as_bytes(std::span(gradient)), nullptr),
                               {std::as_writable_bytes(std::span(out)), nullptr}, done, now + 5s),
                    network);
    });
  }
  cluster.network().RunFor(1s);
  for (const uint32_t w : {0u, 1u}) {
    const std::string dump = cluster.client(w).DumpState(cluster.network().now());
    EXPECT_NE(dump.find("push_pull of key 1, round 2: 1 parts left, waiting for worker 2\n"),
              std::string::npos)
        << dump;
  }
  cluster.network().RunFor(9s);
  EXPECT_NE(heard.find("worker 2"), std::string::npos) << heard;
  EXPECT_NE(heard.find("key 1"), std::string::npos) << heard;
}

}  // namespace
}  // namespace sluice::testing
