// Threads of callers that do a loop's work while it sleeps.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <set>
#include <thread>

#include "sluice/error.h"
#include "transport/zmq/loop.h"
#include "unit/transport/fabric.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: the fabrics

class ZmqLoopLockTest : public ::testing::Test {
 protected:
  // Until the loop sleeps and a task has run here.
  static void RunHere(Loop& loop) {
    EXPECT_TRUE(Eventually([&] {
      std::promise<std::thread::id> where;
      loop.PostOrRun([&](Time, Network&) { where.set_value(std::this_thread::get_id()); });
      return where.get_future().get() == std::this_thread::get_id();
    })) << "the loop never slept";
  }
  TcpFabric fabric;
};

TEST_F(ZmqLoopLockTest, ALoopAtRestRunsATaskInItsCallersThread) {
  auto& loop = fabric.Start("loop", std::make_shared<ScriptMachine>());
  RunHere(loop);
  // And goes on as before.
  std::promise<std::thread::id> where;
  ASSERT_TRUE(loop.Post([&](Time, Network&) { where.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, TasksKeepTheirOrderWhicheverWayTheyCame) {
  auto& loop = fabric.Start("loop", std::make_shared<ScriptMachine>());
  constexpr int kThreads = 4, kTasks = 3000;
  std::vector<std::vector<int>> seen(kThreads);  // touched by one task at a time
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        const auto task = [&, t, i](Time, Network&) {
          seen[t].push_back(i);
          ++count;
        };
        EXPECT_TRUE(i % 3 == 0 ? loop.Post(task) : loop.PostOrRun(task));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop.Post([&](Time, Network&) { fabric.Touch(); });
  ASSERT_TRUE(fabric.Until([&] { return count == kThreads * kTasks; }));
  for (const auto& order : seen) {
    ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(order[i], i);
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, ATaskMayPostAnother) {
  auto& loop = fabric.Start("loop", std::make_shared<ScriptMachine>());
  RunHere(loop);
  std::vector<int> order;
  std::promise<void> done;
  loop.PostOrRun([&](Time, Network&) {
    loop.PostOrRun([&](Time, Network&) {
      order.push_back(2);
      done.set_value();
    });
    order.push_back(1);
  });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2}));
  fabric.StopAll();
}

// What a caller's thread sends is answered, though that thread may have taken the notice of what had arrived.
TEST_F(ZmqLoopLockTest, AnswersAreReadWhoeverSentTheQuestion) {
  const std::string address = fabric.StartBound("echo", MakeEcho()).addresses()[0];
  auto machine = std::make_shared<ScriptMachine>();
  std::atomic<int> answers = 0;
  PeerId echo;
  machine->on_start = [&](Time, Network& network) { echo = network.Connect(address); };
  machine->on_message = [&](Time, PeerId, wire::Message&, Network&) {
    ++answers;
    fabric.Touch();
  };
  auto& loop = fabric.Start("client", machine);
  RunHere(loop);
  constexpr int kRounds = 300, kBurst = 7;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kBurst; ++i) {
      loop.PostOrRun(
          [&](Time, Network& network) { network.Send(echo, MakeMessage(static_cast<uint64_t>(round) + 1)); });
    }
    ASSERT_TRUE(fabric.Until([&] { return answers == (round + 1) * kBurst; })) << round << ": " << answers;
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, ATimerThatATaskSetsRings) {
  auto machine = std::make_shared<ScriptMachine>();
  std::atomic<bool> rang = false;
  machine->on_timer = [&](Time, Network&) {
    machine->timer = Time::max();
    rang = true;
  };
  auto& loop = fabric.Start("loop", machine);
  for (int i = 0; i < 20; ++i) {
    RunHere(loop);
    rang = false;
    loop.PostOrRun([&](Time now, Network&) { machine->timer = now + 1ms; });
    ASSERT_TRUE(fabric.Until([&] { return rang.load(); }));
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, WhatATaskThrowsEndsTheLoopAndNotItsCaller) {
  auto& loop = fabric.Start("loop", std::make_shared<ScriptMachine>());
  RunHere(loop);
  EXPECT_NO_THROW(
      loop.PostOrRun([](Time, Network&) { throw Error(ErrorCode::kUnavailable, "the task is broken"); }));
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_NE(fabric.loop(0).failure().find("the task is broken"), std::string::npos);
  EXPECT_FALSE(loop.PostOrRun([](Time, Network&) { FAIL() << "ran after the end"; }));
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, WhatWasPostedBehindATaskThatThrowsRunsOnce) {
  auto& loop = fabric.Start("loop", std::make_shared<ScriptMachine>());
  RunHere(loop);
  std::vector<int> order;
  loop.PostOrRun([&](Time, Network&) {
    loop.Post([&](Time, Network&) { order.push_back(1); });
    loop.Post([](Time, Network&) { throw Error(ErrorCode::kUnavailable, "the task is broken"); });
    for (const int i : {2, 3}) loop.Post([&order, i](Time, Network&) { order.push_back(i); });
  });
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_NE(fabric.loop(0).failure().find("the task is broken"), std::string::npos);
  fabric.StopAll();
}

TEST_F(ZmqLoopLockTest, ATaskMayEndTheLoop) {
  auto machine = std::make_shared<ScriptMachine>();
  auto& loop = fabric.Start("loop", machine);
  RunHere(loop);
  loop.PostOrRun([&](Time, Network&) { machine->done = true; });
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_EQ(fabric.loop(0).failure(), "");
  fabric.StopAll();
}

// A client of an echo, which counts the answers and the threads that brought them.
class ZmqDriveTest : public ZmqLoopLockTest {
 protected:
  void SetUp() override {
    const std::string address = fabric.StartBound("echo", MakeEcho()).addresses()[0];
    machine->on_start = [this, address](Time, Network& network) { echo = network.Connect(address); };
    machine->on_message = [this](Time, PeerId, wire::Message& message, Network&) {
      by.With([](auto& threads) { threads.insert(std::this_thread::get_id()); });
      ++answers[message.in_reply_to];
    };
    loop = &fabric.Start("client", machine);
  }
  void TearDown() override { fabric.StopAll(); }
  void Ask(uint64_t id) {
    EXPECT_TRUE(loop->PostOrRun([this, id](Time, Network& network) { network.Send(echo, MakeMessage(id)); }));
  }
  static Time Soon() { return SteadyClock().Now() + 30s; }
  // Helps until `done` holds; as a waiter does, who is woken by nobody else here.
  bool DriveUntil(const std::function<bool()>& done) {
    return Eventually([&] {
      loop->DriveUntil(done, Soon());
      return done();
    });
  }

  // Returns once its thread helps.
  std::thread DriveUntilTheEnd() {
    auto helping = std::make_shared<std::atomic<bool>>(false);
    std::thread helper([this, helping] {
      DriveUntil([&] {
        *helping = true;
        return fabric.loop(1).Join(0ms);
      });
    });
    EXPECT_TRUE(Eventually([&] { return helping->load(); }));
    return helper;
  }

  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  Loop* loop = nullptr;
  PeerId echo;
  std::array<std::atomic<int>, 8> answers{};
  Guarded<std::set<std::thread::id>> by;
};

TEST_F(ZmqDriveTest, WhoeverWaitsReadsItsAnswersItself) {
  EXPECT_TRUE(Eventually([&] {
    const int before = answers[1];
    Ask(1);
    return DriveUntil([&] { return answers[1] > before; }) &&
           by.With([](auto& threads) { return threads.contains(std::this_thread::get_id()); });
  }));
}

TEST_F(ZmqDriveTest, HelpEndsAtItsDeadline) {
  const Time start = SteadyClock().Now();
  EXPECT_TRUE(Eventually([&] {  // until it was not refused
    const Time now = SteadyClock().Now();
    loop->DriveUntil([] { return false; }, now + 20ms);
    return SteadyClock().Now() >= now + 20ms;
  }));
  EXPECT_GE(SteadyClock().Now(), start + 20ms);
  Ask(1);
  EXPECT_TRUE(DriveUntil([&] { return answers[1] == 1; }));
}

TEST_F(ZmqDriveTest, AHelperHearsWhatAnotherThreadHasDone) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> done = false;
    std::thread other([&] {
      const auto task = [&](Time, Network&) { done = true; };
      EXPECT_TRUE(i % 2 == 0 ? loop->Post(task) : loop->PostOrRun(task));
    });
    EXPECT_TRUE(DriveUntil([&] { return done.load(); })) << i;
    other.join();
  }
}

TEST_F(ZmqDriveTest, SeveralWhoWaitAndOneWhoPosts) {
  constexpr int kRounds = 500;
  std::vector<std::thread> threads;
  std::atomic<bool> over = false;
  for (uint64_t id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      for (int round = 1; round <= kRounds; ++round) {
        Ask(id);
        ASSERT_TRUE(DriveUntil([&] { return answers[id] == round; })) << id << ", round " << round;
      }
    });
  }
  std::thread poster([&] {
    while (!over) {
      std::promise<void> ran;
      loop->Post([&](Time, Network&) { ran.set_value(); });
      ran.get_future().wait();
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  poster.join();
}

TEST_F(ZmqDriveTest, ConnectionsComeAndGoWhileAHelperSleeps) {
  const std::string other = fabric.StartBound("other", MakeEcho()).addresses()[0];
  std::atomic<bool> over = false;
  std::thread helper([&] { EXPECT_TRUE(DriveUntil([&] { return over.load(); })); });
  for (int i = 1; i <= 50; ++i) {
    std::atomic<bool> connected = false;
    PeerId peer;
    loop->Post([&](Time, Network& network) {
      peer = network.Connect(other);
      network.Send(peer, MakeMessage(2));
      network.Send(echo, MakeMessage(1));
      connected = true;
    });
    ASSERT_TRUE(Eventually([&] { return connected && answers[1] == i && answers[2] == i; })) << i;
    loop->Post([peer](Time, Network& network) { network.Disconnect(peer); });
  }
  loop->Post([&](Time, Network&) { over = true; });
  helper.join();
}

TEST_F(ZmqDriveTest, TheEndEndsTheDrivingOfCallers) {
  std::thread helper = DriveUntilTheEnd();
  loop->Post([&](Time, Network&) { machine->done = true; });
  EXPECT_TRUE(fabric.loop(1).Join(30s));
  helper.join();
  loop->DriveUntil([] { return false; }, Soon());  // and lets nobody wait again
}

TEST_F(ZmqDriveTest, StopEndsTheDrivingOfCallers) {
  std::thread helper = DriveUntilTheEnd();
  fabric.loop(1).Stop();
  helper.join();
}

TEST_F(ZmqDriveTest, WhatTheMachineThrowsInAHelperEndsTheLoop) {
  machine->on_message = [](Time, PeerId, wire::Message&, Network&) {
    throw Error(ErrorCode::kUnavailable, "the machine is broken");
  };
  Ask(1);
  EXPECT_TRUE(DriveUntil([&] { return fabric.loop(1).Join(0ms); }));
  EXPECT_NE(fabric.loop(1).failure().find("the machine is broken"), std::string::npos);
}

}  // namespace
}  // namespace sluice::transport
