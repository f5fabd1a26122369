// Tests transport/sim: the simulated network is decided by its seed, and each fault happens as often as
// asked. tests/contract compares it with the real one.
#include "transport/sim/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sluice/error.h"
#include "unit/transport/script_machine.h"

namespace sluice::transport {
namespace {

using testing::MakeEcho;
using testing::MakeMessage;
using testing::MakePush;
using testing::ScriptMachine;

// Sends ids 1..count to `address` at once, or one every `period`; notes what comes back and when.
struct Client {
  explicit Client(std::string address, uint64_t count, Duration period = Duration::zero()) {
    machine->on_start = [this, address, count, period](Time now, Network& network) {
      peer = network.Connect(address);
      if (period == Duration::zero()) {
        for (uint64_t id = 1; id <= count; ++id) Send(now, id, network);
      } else {
        machine->timer = now + period;
      }
    };
    machine->on_timer = [this, count, period](Time now, Network& network) {
      Send(now, ++ticks, network);
      if (ticks < count) machine->timer = now + period;
    };
    machine->on_message = [this](Time now, PeerId, wire::Message& message, Network&) {
      arrived.push_back(message.in_reply_to);
      arrival_times.push_back(now);
    };
  }
  void Send(Time now, uint64_t id, Network& network) {
    send_times.push_back(now);
    network.Send(peer, MakeMessage(id));
  }

  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  PeerId peer;
  uint64_t ticks = 0;
  std::vector<uint64_t> arrived;
  std::vector<Time> send_times, arrival_times;
};

// Several messages may come before a busy loop rests, and nothing else.
TEST(SimNetwork, ABusyLoopRestsLater) {
  SimNetwork sim({.seed = 3, .busy = 0.8});
  auto machine = std::make_shared<ScriptMachine>();
  size_t waiting = 0, most = 0, got = 0;
  machine->on_start = [&](Time now, Network&) { machine->timer = now + 100us; };
  machine->on_message = [&](Time, PeerId, wire::Message&, Network&) { ++waiting; };
  machine->on_burst_end = [&](Time, Network&) {
    most = std::max(most, waiting);
    got += std::exchange(waiting, 0);
  };
  machine->on_timer = [&](Time now, Network&) {
    EXPECT_EQ(waiting, 0u);
    machine->timer = now + 100us;
  };
  SimLoop& loop = sim.Start("busy", machine);
  Client client(loop.addresses()[0], 200, 20us);
  sim.Start("client", client.machine);
  for (int i = 0; i < 10; ++i) {
    loop.Post([&](Time, Network&) { EXPECT_EQ(waiting, 0u); });
    sim.RunFor(1ms);
  }
  EXPECT_EQ(got, 200u);
  EXPECT_GT(most, 1u);
}

uint64_t HistoryOf(uint64_t seed) {
  SimNetwork sim({.seed = seed, .faults = {.drop = 0.1, .duplicate = 0.1, .reorder = 0.5}});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client a(echo.addresses()[0], 50), b(echo.addresses()[0], 50, 1ms);
  sim.Start("a", a.machine);
  SimLoop& loop = sim.Start("b", b.machine);
  sim.Partition({&loop}, {&echo}, sim.now() + 20ms);
  sim.RunFor(10s);
  EXPECT_GT(b.arrived.size(), 10u);
  return sim.history_hash();
}

TEST(SimNetwork, TheSeedDecidesEverything) {
  std::set<uint64_t> histories;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const uint64_t history = HistoryOf(seed);
    EXPECT_EQ(history, HistoryOf(seed)) << seed;
    histories.insert(history);
  }
  EXPECT_EQ(histories.size(), 20u);
}

TEST(SimNetwork, WithoutFaultsEverythingArrivesOnceInOrderWithinItsDelay) {
  SimNetwork sim({.faults = {.min_delay = 2ms, .max_delay = 5ms}});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client client(echo.addresses()[0], 100, 10ms);
  sim.Start("client", client.machine);
  EXPECT_TRUE(sim.RunUntil([&] { return client.arrived.size() == 100; }, sim.now() + 10s)) << sim.LogText();
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(client.arrived[i], i + 1);
    const Duration round_trip = client.arrival_times[i] - client.send_times[i];
    EXPECT_GE(round_trip, 4ms);
    EXPECT_LE(round_trip, 10ms);
  }
  EXPECT_EQ(sim.counters().sent, 200u);
  EXPECT_EQ(sim.counters().delivered, 200u);
  EXPECT_EQ(sim.counters().dropped, 0u);
}

TEST(SimNetwork, OnlyReorderedMessagesOvertake) {
  for (const double reorder : {0.0, 1.0}) {
    SimNetwork sim({.faults = {.reorder = reorder, .min_delay = 1ms, .max_delay = 100ms}});
    SimLoop& echo = sim.Start("echo", MakeEcho());
    Client client(echo.addresses()[0], 200);
    sim.Start("client", client.machine);
    sim.RunFor(10s);
    ASSERT_EQ(client.arrived.size(), 200u);
    EXPECT_EQ(std::is_sorted(client.arrived.begin(), client.arrived.end()), reorder == 0) << reorder;
  }
}

TEST(SimNetwork, DropsAndDuplicatesAsOftenAsAsked) {
  constexpr double kMessages = 20000;
  SimNetwork sim({.faults = {.drop = 0.05}, .codec = 0});
  std::shared_ptr<ScriptMachine> sink = std::make_shared<ScriptMachine>();
  SimLoop& loop = sim.Start("sink", sink);
  Client client(loop.addresses()[0], static_cast<uint64_t>(kMessages));
  sim.Start("client", client.machine);
  sim.RunFor(1s);
  // Five standard deviations of a binomial.
  const auto within = [](double n, double p) { return 5 * std::sqrt(n * p * (1 - p)); };
  EXPECT_NEAR(static_cast<double>(sim.counters().dropped), kMessages * 0.05, within(kMessages, 0.05));
  EXPECT_EQ(sim.counters().duplicated, 0u);

  sim.SetFaults({.duplicate = 0.2});
  const double before = static_cast<double>(sim.counters().delivered);
  Client second(loop.addresses()[0], static_cast<uint64_t>(kMessages));
  sim.Start("second", second.machine);
  sim.RunFor(1s);
  EXPECT_NEAR(static_cast<double>(sim.counters().delivered) - before, kMessages * 1.2,
              within(kMessages, 0.2));
}

TEST(SimNetwork, APartitionLosesBothDirectionsUntilItHeals) {
  SimNetwork sim({.faults = {.min_delay = 1ms, .max_delay = 1ms}});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client cut(echo.addresses()[0], 100, 10ms), other(echo.addresses()[0], 100, 10ms);
  SimLoop& loop = sim.Start("cut", cut.machine);
  sim.Start("other", other.machine);
  sim.RunFor(105ms);  // ids up to 10 have been answered
  sim.Partition({&echo}, {&loop}, sim.now() + 500ms);
  sim.RunFor(5s);
  EXPECT_EQ(other.arrived.size(), 100u);
  ASSERT_EQ(cut.arrived.size(), 50u);
  EXPECT_EQ(cut.arrived[9], 10u);
  EXPECT_EQ(cut.arrived[10], 61u);
}

TEST(SimNetwork, ACrashedLoopIsSilentAndWhatWasSentToItIsLost) {
  SimNetwork sim({});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client client(echo.addresses()[0], 100, 10ms);
  sim.Start("client", client.machine);
  sim.RunFor(105ms);
  sim.Crash(echo);
  EXPECT_TRUE(echo.ended());
  sim.RunFor(10s);
  EXPECT_EQ(client.arrived.size(), 10u);
  EXPECT_EQ(sim.counters().dropped, 90u);
  bool ran = false;
  echo.Post([&](Time, Network&) { ran = true; });
  sim.RunFor(1s);
  EXPECT_FALSE(ran);
}

TEST(SimNetwork, MessagesWaitForALoopThatStartsLater) {
  SimNetwork sim({});
  Client client("sim://1", 5);
  sim.Start("client", client.machine);
  sim.RunFor(10s);
  EXPECT_TRUE(client.arrived.empty());
  EXPECT_EQ(sim.Start("echo", MakeEcho()).addresses(), std::vector<std::string>{"sim://1"});
  sim.RunFor(1s);
  EXPECT_EQ(client.arrived, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST(SimNetwork, TimersFireWhenAskedAndAReplacedOneDoesNot) {
  SimNetwork sim({});
  auto machine = std::make_shared<ScriptMachine>();
  std::vector<Time> fired;
  const Time start = sim.now();
  machine->on_start = [&](Time now, Network&) { machine->timer = now + 5s; };
  machine->on_timer = [&](Time now, Network&) { fired.push_back(now); };
  SimLoop& loop = sim.Start("timer", machine);
  sim.RunFor(1s);
  loop.Post([&](Time now, Network&) { machine->timer = now + 1s; });
  sim.RunFor(10s);
  EXPECT_EQ(fired, std::vector<Time>{start + 2s});
  loop.Post([&](Time, Network&) { machine->timer = start; });  // long past: at once
  sim.RunFor(1s);
  EXPECT_EQ(fired.back(), start + 11s);
}

TEST(SimNetwork, TasksRunInOrderAtTheTimeTheyWerePosted) {
  SimNetwork sim({});
  SimLoop& loop = sim.Start("loop", std::make_shared<ScriptMachine>());
  sim.RunFor(3s);
  std::vector<int> order;
  const Time posted = sim.now();
  for (int i = 0; i < 3; ++i) {
    loop.Post([&, i](Time now, Network&) {
      EXPECT_EQ(now, posted);
      order.push_back(i);
      if (i == 0) loop.Post([&](Time, Network&) { order.push_back(9); });
    });
  }
  EXPECT_TRUE(order.empty());
  sim.RunFor(1s);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 9}));
}

TEST(SimNetwork, BeyondTheBoundOfAPeerMessagesAreDropped) {
  SimNetwork sim({.max_queued_bytes = 1000});
  std::vector<uint64_t> got;
  auto sink = std::make_shared<ScriptMachine>();
  sink->on_message = [&](Time, PeerId, wire::Message& message, Network&) { got.push_back(message.id); };
  SimLoop& loop = sim.Start("sink", sink);
  auto sender = std::make_shared<ScriptMachine>();
  PeerId peer;
  sender->on_start = [&](Time, Network& network) {
    peer = network.Connect(loop.addresses()[0]);
    for (uint64_t id = 1; id <= 5; ++id)
      network.Send(peer, MakePush(id, Frame::Copy(AsBytes(std::string(400, 'x')))));
    EXPECT_EQ(network.QueuedBytes(peer), 800u);
  };
  SimLoop& from = sim.Start("sender", sender);
  sim.RunFor(1s);
  EXPECT_EQ(got, (std::vector<uint64_t>{1, 2}));
  from.Post([&](Time, Network& network) { EXPECT_EQ(network.QueuedBytes(peer), 0u); });
  sim.RunFor(1s);
}

TEST(SimNetwork, AMachineHearsOfRoomOnceHalfOfWhatIsQueuedIsLeft) {
  SimNetwork sim({.link = {.transmit_rate = 1e6}, .room_bytes = 1000});
  auto sink = std::make_shared<ScriptMachine>();
  int arrived = 0;
  sink->on_message = [&](Time, PeerId, wire::Message&, Network&) { ++arrived; };
  SimLoop& loop = sim.Start("sink", sink);
  auto sender = std::make_shared<ScriptMachine>();
  PeerId peer;
  std::vector<int> arrived_at_room;
  sender->on_room = [&](PeerId of) {
    EXPECT_EQ(of, peer);
    arrived_at_room.push_back(arrived);
  };
  sender->on_start = [&](Time, Network& network) {
    peer = network.Connect(loop.addresses()[0]);
    for (uint64_t id = 1; id <= 4; ++id) {
      EXPECT_EQ(network.HasRoom(peer), id < 4) << id;
      network.Send(peer, MakePush(id, Frame::Copy(AsBytes(std::string(400, 'x')))));
    }
    EXPECT_FALSE(network.HasRoom(peer));
  };
  sim.Start("sender", sender);
  sim.RunFor(1s);
  EXPECT_EQ(arrived_at_room, std::vector<int>{3});
}

TEST(SimNetwork, WhoSendsToADeadPeerHearsOfRoom) {
  SimNetwork sim({.room_bytes = 1000});
  SimLoop& loop = sim.Start("sink", std::make_shared<ScriptMachine>());
  auto sender = std::make_shared<ScriptMachine>();
  int rooms = 0;
  sender->on_room = [&](PeerId) { ++rooms; };
  sender->on_start = [&](Time, Network& network) {
    const PeerId peer = network.Connect(loop.addresses()[0]);
    network.Send(peer, MakePush(1, Frame::Copy(AsBytes(std::string(4000, 'x')))));
    EXPECT_FALSE(network.HasRoom(peer));
    sim.Crash(loop);
  };
  sim.Start("sender", sender);
  sim.RunFor(1s);
  EXPECT_EQ(rooms, 1);
}

TEST(SimNetwork, AMessageThatTheCodecRefusesDoesNotArrive) {
  SimNetwork sim({});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  auto sender = std::make_shared<ScriptMachine>();
  sender->on_start = [&](Time, Network& network) {
    const PeerId peer = network.Connect(echo.addresses()[0]);
    network.Send(peer, MakeMessage(1, wire::Push{.divisor = std::numeric_limits<double>::quiet_NaN()}));
    network.Send(peer, MakeMessage(2, wire::Push{.parts = {{}}}));  // no frame
  };
  sim.Start("sender", sender);
  sim.RunFor(1s);
  EXPECT_EQ(sim.counters().refused, 2u);
  EXPECT_EQ(sim.counters().delivered, 0u);
  EXPECT_NE(sim.LogText().find("refused"), std::string::npos) << sim.LogText();
}

TEST(SimNetwork, WhatArrivesIsTheReceiversOwn) {
  SimNetwork sim({});
  Frame kept;
  auto sink = std::make_shared<ScriptMachine>();
  sink->on_message = [&](Time, PeerId, wire::Message& message, Network&) { kept = message.payload[0]; };
  SimLoop& loop = sim.Start("sink", sink);
  auto buffer = std::make_shared<Buffer>(4);
  std::memcpy(buffer->data(), "old!", 4);
  auto sender = std::make_shared<ScriptMachine>();
  sender->on_start = [&](Time, Network& network) {
    network.Send(network.Connect(loop.addresses()[0]), MakePush(1, Frame::Of(buffer)));
  };
  sim.Start("sender", sender);
  sim.RunFor(1s);
  std::memcpy(buffer->data(), "new!", 4);
  EXPECT_EQ(AsText(kept.bytes()), "old!");
  EXPECT_EQ(buffer.use_count(), 1) << "the network still holds the sender's frame";
}

TEST(SimNetwork, ALoopEndsWhenItsMachineIsDoneAndWhatItSentArrives) {
  SimNetwork sim({});
  std::vector<uint64_t> got;
  auto sink = std::make_shared<ScriptMachine>();
  sink->on_message = [&](Time, PeerId, wire::Message& message, Network&) { got.push_back(message.id); };
  SimLoop& loop = sim.Start("sink", sink);
  Client client(loop.addresses()[0], 3);
  client.machine->after_call = [&] { client.machine->done = true; };
  SimLoop& ending = sim.Start("client", client.machine);
  sim.RunFor(1s);
  EXPECT_TRUE(ending.ended());
  EXPECT_EQ(got, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(SimNetwork, AfterDisconnectNothingPasses) {
  SimNetwork sim({});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client client(echo.addresses()[0], 3);
  SimLoop& loop = sim.Start("client", client.machine);
  sim.RunFor(1s);
  ASSERT_EQ(client.arrived.size(), 3u);
  loop.Post([&](Time now, Network& network) {
    network.Disconnect(client.peer);
    client.Send(now, 4, network);
  });
  sim.RunFor(1s);
  EXPECT_EQ(client.arrived.size(), 3u);
}

TEST(SimNetwork, ADeadlineStopsTheRunAtItsTime) {
  SimNetwork sim({});
  const Time deadline = sim.now() + 7s;
  EXPECT_FALSE(sim.RunUntil([] { return false; }, deadline));
  EXPECT_EQ(sim.now(), deadline);
}

TEST(SimNetwork, AddressesAndFaultsAreChecked) {
  SimNetwork sim({});
  SimLoop& loop = sim.Start("loop", std::make_shared<ScriptMachine>());
  loop.Post([](Time, Network& network) {
    for (const char* address : {"tcp://localhost:1", "sim://", "sim://-1", "sim://x", "sim://99999999999"}) {
      EXPECT_THROW(network.Connect(address), Error) << address;
    }
  });
  sim.RunFor(1s);
  EXPECT_THROW(sim.SetFaults({.drop = 1.5}), Error);
  EXPECT_THROW(sim.SetFaults({.duplicate = std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(sim.SetFaults({.min_delay = 2ms, .max_delay = 1ms}), Error);
}

TEST(SimNetwork, TheLogKeepsTheNewestAndShowsTheStates) {
  SimNetwork sim({.log_entries = 10});
  SimLoop& echo = sim.Start("echo", MakeEcho());
  Client client(echo.addresses()[0], 100);
  sim.Start("client", client.machine);
  sim.RunFor(1s);
  const std::string text = sim.LogText();
  EXPECT_NE(text.find("echo -> client Ack id 100 arrived"), std::string::npos) << text;
  EXPECT_EQ(text.find("id 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("--- echo\na script"), std::string::npos) << text;
}

TEST(SimNetworkDeathTest, ATimerThatNeverMovesOnIsABug) {
  SimNetwork sim({});
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_start = [&](Time now, Network&) { machine->timer = now; };
  machine->on_timer = [&](Time now, Network&) { machine->timer = now; };
  sim.Start("spinner", machine);
  EXPECT_DEATH(sim.RunFor(1s), "spinner's timer fires without end");
}

}  // namespace
}  // namespace sluice::transport
