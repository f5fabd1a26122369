// What bandwidth makes of messages' times, in closed form. Links pass 1 MB/s: a byte is a microsecond.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "sluice/error.h"
#include "transport/sim/sim_network.h"
#include "unit/transport/script_machine.h"

namespace sluice::transport {
namespace {

using testing::MakeMessage;
using testing::MakePush;
using testing::ScriptMachine;

constexpr SimLink kLink{.transmit_rate = 1e6, .receive_rate = 1e6};
constexpr Duration kDelay = 7ms;
constexpr SimFaults kFaults{.min_delay = kDelay, .max_delay = kDelay};

wire::Message Push(uint64_t id, size_t bytes) {
  return MakePush(id, Frame::Copy(AsBytes(std::string(bytes, 'x'))));
}
// On links of kLink.
Duration TimeOf(const wire::Message& message) {
  return std::chrono::microseconds(wire::EncodeEnvelope(message).size() + wire::PayloadBytes(message));
}

// Notes when each message arrives.
struct Sink {
  explicit Sink(SimNetwork& sim) : start(sim.now()) {
    machine->on_message = [this](Time now, PeerId, wire::Message& message, Network&) {
      at[message.id] = now - start;
    };
    loop = &sim.Start("sink", machine);
  }
  Time start;
  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  SimLoop* loop;
  std::map<uint64_t, Duration> at;  // by message id
};

using Letters = std::vector<std::pair<const Sink*, wire::Message>>;

// Sends all of it when it starts.
SimLoop& StartSender(SimNetwork& sim, Letters letters, const SimLoop* beside = nullptr) {
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_start = [letters = std::move(letters)](Time, Network& network) {
    std::map<const Sink*, PeerId> peers;
    for (const auto& [to, message] : letters) {
      if (!peers.contains(to)) peers[to] = network.Connect(to->loop->addresses()[0]);
      network.Send(peers[to], message);
    }
  };
  return sim.Start("sender", machine, beside);
}

TEST(SimLink, AMessageArrivesAfterTheDelayAndItsBytesAtTheLowerRate) {
  const auto arrives = [](const SimLink& link, const wire::Message& message) {
    SimNetwork sim({.faults = kFaults, .link = link});
    Sink sink(sim);
    StartSender(sim, {{&sink, message}});
    sim.RunFor(1s);
    return sink.at[1];
  };
  const wire::Message message = Push(1, 5000);
  const Duration once = TimeOf(message);
  EXPECT_EQ(arrives({}, message), kDelay);
  EXPECT_EQ(arrives(kLink, message), kDelay + once);
  EXPECT_EQ(arrives({.transmit_rate = 1e6}, message), kDelay + once);
  EXPECT_EQ(arrives({.receive_rate = 1e6}, message), kDelay + once);
  EXPECT_EQ(arrives({.transmit_rate = 1e6, .receive_rate = 4e6}, message), kDelay + once);
  EXPECT_EQ(arrives({.transmit_rate = 1e6, .receive_rate = 0.5e6}, message), kDelay + 2 * once);
}

TEST(SimLink, MessagesOfAHostPassOneBehindTheOtherAndTheDelayAddsOnce) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink sink(sim);
  Letters letters;
  for (uint64_t id = 1; id <= 10; ++id) letters.emplace_back(&sink, Push(id, 1000 * id));
  StartSender(sim, letters);
  sim.RunFor(1s);
  Duration passed{};
  for (uint64_t id = 1; id <= 10; ++id) {
    passed += TimeOf(letters[id - 1].second);
    EXPECT_EQ(sink.at[id], kDelay + passed) << id;
  }
}

TEST(SimLink, TwoSendersShareTheirReceiversRate) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink sink(sim);
  StartSender(sim, {{&sink, Push(1, 5000)}, {&sink, Push(2, 5000)}});
  StartSender(sim, {{&sink, Push(3, 5000)}, {&sink, Push(4, 5000)}});
  sim.RunFor(1s);
  const Duration each = TimeOf(Push(1, 5000));
  // In the order in which they come to its link.
  EXPECT_EQ(sink.at,
            (std::map<uint64_t, Duration>{
                {1, kDelay + each}, {3, kDelay + 2 * each}, {2, kDelay + 3 * each}, {4, kDelay + 4 * each}}));
}

TEST(SimLink, SlowSendersTogetherFillAFastReceiver) {
  SimNetwork sim({.faults = kFaults, .link = {.transmit_rate = 1e6, .receive_rate = 2e6}});
  Sink sink(sim);
  for (uint64_t id = 1; id <= 3; ++id) StartSender(sim, {{&sink, Push(id, 5000)}});
  sim.RunFor(1s);
  const Duration each = TimeOf(Push(1, 5000));
  EXPECT_EQ(sink.at, (std::map<uint64_t, Duration>{
                         {1, kDelay + each}, {2, kDelay + each}, {3, kDelay + each * 3 / 2}}));
}

TEST(SimLink, OneSenderSharesItsRateBetweenReceivers) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink a(sim), b(sim);
  StartSender(sim, {{&a, Push(1, 5000)}, {&b, Push(2, 5000)}, {&a, Push(3, 5000)}});
  sim.RunFor(1s);
  const Duration each = TimeOf(Push(1, 5000));
  EXPECT_EQ(a.at, (std::map<uint64_t, Duration>{{1, kDelay + each}, {3, kDelay + 3 * each}}));
  EXPECT_EQ(b.at, (std::map<uint64_t, Duration>{{2, kDelay + 2 * each}}));
}

TEST(SimLink, BothDirectionsOfALinkWorkAtOnce) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink a(sim), b(sim);
  StartSender(sim, {{&b, Push(1, 5000)}}, a.loop);
  StartSender(sim, {{&a, Push(2, 5000)}}, b.loop);
  sim.RunFor(1s);
  EXPECT_EQ(a.at[2], kDelay + TimeOf(Push(2, 5000)));
  EXPECT_EQ(b.at[1], kDelay + TimeOf(Push(1, 5000)));
}

TEST(SimLink, LoopsOfAHostShareItsLinkAndReachEachOtherWithoutIt) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink near(sim), far(sim);
  StartSender(sim, {{&near, Push(1, 5000)}, {&far, Push(2, 5000)}}, near.loop);
  StartSender(sim, {{&far, Push(3, 5000)}}, near.loop);
  sim.RunFor(1s);
  const Duration each = TimeOf(Push(1, 5000));
  EXPECT_EQ(near.at, (std::map<uint64_t, Duration>{{1, kDelay}}));
  EXPECT_EQ(far.at, (std::map<uint64_t, Duration>{{2, kDelay + each}, {3, kDelay + 2 * each}}));
}

TEST(SimLink, ALostMessageHasTakenItsSendersLink) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink sink(sim);
  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  PeerId peer;
  machine->on_start = [&](Time, Network& network) { peer = network.Connect(sink.loop->addresses()[0]); };
  SimLoop& sender = sim.Start("sender", machine);
  const auto send = [&](uint64_t id) {
    sender.Post([&, id](Time, Network& network) { network.Send(peer, Push(id, 5000)); });
    sim.RunFor(Duration::zero());
  };
  SimFaults lossy = kFaults;
  lossy.drop = 1;
  sim.SetFaults(lossy);
  send(1);
  sim.SetFaults(kFaults);
  send(2);
  sim.RunFor(1s);
  EXPECT_EQ(sink.at, (std::map<uint64_t, Duration>{{2, kDelay + 2 * TimeOf(Push(1, 5000))}}));
}

TEST(SimLink, WhatArrivesTwiceTakesItsSendersLinkOnce) {
  SimFaults faults = kFaults;
  faults.duplicate = 1;
  SimNetwork sim({.faults = faults, .link = {.transmit_rate = 1e6}});
  Sink sink(sim);
  StartSender(sim, {{&sink, Push(1, 5000)}, {&sink, Push(2, 5000)}});
  sim.RunFor(1s);
  EXPECT_EQ(sim.counters().delivered, 4u);
  // The second copies follow the first ones, as over TCP.
  EXPECT_GE(sink.at[2], kDelay + 2 * TimeOf(Push(1, 5000)));
}

TEST(SimLink, SmallMessagesCountTheirEnvelopes) {
  SimNetwork sim({.faults = kFaults, .link = kLink});
  Sink sink(sim);
  const wire::Message bare = MakeMessage(1), inside = Push(2, 100);
  StartSender(sim, {{&sink, bare}, {&sink, inside}});
  sim.RunFor(1s);
  const auto time = [](const wire::Message& m) {
    return Duration(std::chrono::microseconds(wire::EncodeEnvelope(m).size()));
  };
  EXPECT_EQ(sink.at[1], kDelay + time(bare));
  EXPECT_EQ(sink.at[2], kDelay + time(bare) + time(inside));
}

TEST(SimLink, MessagesOfAConnectionStayInOrderWhateverTheirDelays) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimNetwork sim({.seed = seed,
                    .faults = {.min_delay = 0ms, .max_delay = 100ms},
                    .link = {.transmit_rate = 1e6, .receive_rate = 0.8e6}});
    Sink sink(sim);
    Rng rng(seed);
    Letters letters;
    for (uint64_t id = 1; id <= 50; ++id) letters.emplace_back(&sink, Push(id, 300 + rng.Below(9000)));
    StartSender(sim, letters);
    StartSender(sim, {{&sink, Push(99, 20000)}});
    sim.RunFor(10s);
    ASSERT_EQ(sink.at.size(), 51u);
    for (uint64_t id = 2; id <= 50; ++id) EXPECT_GE(sink.at[id], sink.at[id - 1]) << seed << " " << id;
  }
}

TEST(SimLink, WhoEndsIsHeardOfAfterAllThatItSent) {
  SimNetwork sim({.faults = kFaults, .link = {.receive_rate = 1e6}});
  Sink sink(sim);
  Time closed{};
  sink.machine->on_closed = [&](PeerId) { closed = sim.now(); };
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_start = [&](Time, Network& network) {
    network.Send(network.Connect(sink.loop->addresses()[0]), Push(1, 100));
    network.Send(PeerId{1}, Push(2, 50000));
    machine->done = true;
  };
  sim.Start("sender", machine);
  sim.RunFor(1s);
  EXPECT_GE(closed - sink.start, sink.at[2]);
}

TEST(SimLink, RatesAreChecked) {
  for (const double rate : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(SimNetwork({.link = {.transmit_rate = rate}}), Error) << rate;
    EXPECT_THROW(SimNetwork({.link = {.receive_rate = rate}}), Error) << rate;
  }
}

}  // namespace
}  // namespace sluice::transport
