// What holds on every transport.
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "unit/transport/fabric.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: the fabrics

std::string BytesOf(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng.Next());
  return bytes;
}

struct Answer {
  uint64_t id;
  std::string body;
  std::vector<std::string> payload;
};

// Connects to `address`, sends what `send` says, notes the answers. Thread-safe.
class Asker {
 public:
  Asker(std::string address, std::function<void(PeerId, Network&)> send)
      : machine(std::make_shared<ScriptMachine>()) {
    machine->on_start = [this, address, send](Time, Network& network) {
      peer = network.Connect(address);
      send(peer, network);
    };
    machine->on_message = [this](Time, PeerId from, wire::Message& message, Network&) {
      Answer answer{message.in_reply_to, std::string(wire::BodyName(message.body)), {}};
      for (const Frame& frame : message.payload) answer.payload.emplace_back(AsText(frame.bytes()));
      answers.With([&](auto& a) { a.push_back(std::move(answer)); });
      senders.With([&](auto& s) { s.insert(from); });
    };
  }
  size_t count() const {
    return answers.With([](const auto& a) { return a.size(); });
  }

  std::shared_ptr<ScriptMachine> machine;
  PeerId peer;  // the loop's thread
  Guarded<std::vector<Answer>> answers;
  Guarded<std::set<PeerId>> senders;
};

template <typename Fabric>
class AnyTransport : public ::testing::Test {
 protected:
  Fabric fabric;
};
struct FabricNames {
  template <typename F>
  static std::string GetName(int) {
    if (std::is_same_v<F, SimFabric>) return "Sim";
    if (std::is_same_v<F, TcpFabric>) return "Tcp";
    if (std::is_same_v<F, ShmFabric>) return "Shm";
    return std::is_same_v<F, Tcp6Fabric> ? "Tcp6" : "Ipc";
  }
};
using Fabrics = ::testing::Types<SimFabric, TcpFabric, Tcp6Fabric, IpcFabric, ShmFabric>;
TYPED_TEST_SUITE(AnyTransport, Fabrics, FabricNames);

TYPED_TEST(AnyTransport, PayloadsOfEverySizeComeBackAsTheyWere) {
  const std::vector<size_t> sizes = {0,    1,    32,   33,   34,    64,      1023,   1024,
                                     1025, 8191, 8192, 8193, 65536, 1 << 20, 5 << 20};
  auto& echo = this->fabric.StartBound("echo", MakeEcho());
  Asker asker(echo.addresses()[0], [&](PeerId peer, Network& network) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      network.Send(peer, MakePush(i + 1, Frame::Copy(AsBytes(BytesOf(sizes[i], i)))));
    }
    wire::Message all = MakeMessage(100, wire::Push{.parts = wire::PartList<wire::PushPart>(sizes.size())});
    for (size_t i = 0; i < sizes.size(); ++i)
      all.payload.push_back(Frame::Copy(AsBytes(BytesOf(sizes[i], i))));
    network.Send(peer, std::move(all));
  });
  this->fabric.Start("asker", asker.machine);
  ASSERT_TRUE(this->fabric.Until([&] { return asker.count() == sizes.size() + 1; })) << asker.count();
  asker.answers.With([&](const auto& answers) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(answers[i].id, i + 1);
      EXPECT_EQ(answers[i].body, "Values");
      ASSERT_EQ(answers[i].payload.size(), 1u);
      EXPECT_TRUE(answers[i].payload[0] == BytesOf(sizes[i], i)) << sizes[i];
      EXPECT_TRUE(answers.back().payload[i] == BytesOf(sizes[i], i)) << sizes[i];
    }
  });
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, AConnectionKeepsItsOrder) {
  auto& echo = this->fabric.StartBound("echo", MakeEcho());
  Asker asker(echo.addresses()[0], [&](PeerId peer, Network& network) {
    for (uint64_t id = 1; id <= 2000; ++id) network.Send(peer, MakeMessage(id));
  });
  this->fabric.Start("asker", asker.machine);
  ASSERT_TRUE(this->fabric.Until([&] { return asker.count() == 2000; })) << asker.count();
  asker.answers.With([](const auto& answers) {
    for (size_t i = 0; i < answers.size(); ++i) ASSERT_EQ(answers[i].id, i + 1);
  });
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, ClientsGetTheirOwnAnswers) {
  auto echo_machine = MakeEcho();
  Guarded<std::set<PeerId>> clients;
  echo_machine->on_message = [&clients, answer = echo_machine->on_message](
                                 Time now, PeerId from, wire::Message& message, Network& network) {
    clients.With([&](auto& c) { c.insert(from); });
    answer(now, from, message, network);
  };
  auto& echo = this->fabric.StartBound("echo", echo_machine);
  std::vector<std::unique_ptr<Asker>> askers;
  for (uint64_t n = 0; n < 6; ++n) {
    askers.push_back(std::make_unique<Asker>(echo.addresses()[0], [n](PeerId peer, Network& network) {
      for (uint64_t i = 0; i < 50; ++i) network.Send(peer, MakeMessage(n * 1000 + i + 1));
    }));
    this->fabric.Start("asker", askers.back()->machine);
  }
  ASSERT_TRUE(this->fabric.Until([&] {
    return std::all_of(askers.begin(), askers.end(), [](const auto& a) { return a->count() == 50; });
  }));
  EXPECT_EQ(clients.With([](auto& c) { return c.size(); }), 6u);
  for (uint64_t n = 0; n < 6; ++n) {
    askers[n]->answers.With([&](const auto& answers) {
      for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(answers[i].id, n * 1000 + i + 1);
    });
    askers[n]->senders.With([&](const auto& s) { EXPECT_EQ(s, std::set<PeerId>{askers[n]->peer}); });
  }
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, ALoopTalksToSeveralAndTellsThemApart) {
  auto& a = this->fabric.StartBound("a", MakeEcho());
  auto address = a.addresses()[0];
  Guarded<std::vector<std::pair<PeerId, uint64_t>>> got;
  auto machine = std::make_shared<ScriptMachine>();
  std::vector<PeerId> peers(3);
  machine->on_start = [&](Time, Network& network) {
    for (size_t i = 0; i < peers.size(); ++i) peers[i] = network.Connect(address);
    for (size_t i = 0; i < peers.size(); ++i) network.Send(peers[i], MakeMessage(i + 1));
  };
  machine->on_message = [&](Time, PeerId from, wire::Message& message, Network&) {
    got.With([&](auto& g) { g.emplace_back(from, message.in_reply_to); });
  };
  this->fabric.Start("client", machine);
  ASSERT_TRUE(this->fabric.Until([&] { return got.With([](auto& g) { return g.size() == 3; }); }));
  got.With([&](auto& g) {
    for (const auto& [from, id] : g) EXPECT_EQ(from, peers[id - 1]);
  });
  EXPECT_EQ(std::set<PeerId>(peers.begin(), peers.end()).size(), 3u);
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, TimersAndTasksRunOnTheLoop) {
  auto machine = std::make_shared<ScriptMachine>();
  std::atomic<int> fired = 0;
  std::atomic<bool> early = false;
  machine->on_timer = [&](Time now, Network&) {
    if (++fired < 5) machine->timer = now + 2ms;
  };
  auto& loop = this->fabric.Start("loop", machine);
  loop.Post([&](Time now, Network&) {
    early = fired != 0;
    machine->timer = now + 1ms;
  });
  EXPECT_TRUE(this->fabric.Until([&] { return fired == 5; }));
  EXPECT_FALSE(early);
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, WhatADoneMachineSentStillArrives) {
  std::atomic<int> got = 0;
  auto sink = std::make_shared<ScriptMachine>();
  sink->on_message = [&](Time, PeerId, wire::Message&, Network&) { ++got; };
  auto& loop = this->fabric.StartBound("sink", sink);
  Asker asker(loop.addresses()[0], [](PeerId peer, Network& network) {
    for (uint64_t id = 1; id <= 100; ++id)
      network.Send(peer, MakePush(id, Frame::Copy(AsBytes(BytesOf(50000, id)))));
  });
  asker.machine->done = true;
  this->fabric.Start("asker", asker.machine);
  EXPECT_TRUE(this->fabric.Until([&] { return got == 100; })) << got;
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, AMachineHearsOnceThatItsLoopEnds) {
  std::atomic<int> ends = 0;
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_end = [&](const std::string&) { ++ends; };
  auto& loop = this->fabric.Start("loop", machine);
  loop.Post([&](Time, Network&) { machine->done = true; });
  EXPECT_TRUE(this->fabric.Until([&] { return ends == 1; }));
  this->fabric.StopAll();
  EXPECT_EQ(ends, 1);
}

// Puts its answers off until it rests, which it does before anything but a message.
struct Lazy {
  Lazy() {
    const auto nothing_waits = [this] { EXPECT_TRUE(waiting.empty()); };
    machine->on_message = [this](Time, PeerId from, wire::Message& message, Network&) {
      waiting.emplace_back(from, message.id);
    };
    machine->on_burst_end = [this](Time, Network& network) {
      for (const auto& [to, id] : std::exchange(waiting, {})) {
        wire::Message answer = MakeMessage(0, wire::Ack{});
        answer.in_reply_to = id;
        network.Send(to, std::move(answer));
      }
    };
    machine->on_timer = [this, nothing_waits](Time now, Network&) {
      nothing_waits();
      machine->timer = now + 1ms;
    };
    machine->on_closed = [nothing_waits](PeerId) { nothing_waits(); };
    machine->on_start = [this](Time now, Network&) { machine->timer = now + 1ms; };
  }
  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  std::vector<std::pair<PeerId, uint64_t>> waiting;
};

TYPED_TEST(AnyTransport, WhatIsPutOffUntilTheLoopRestsComes) {
  Lazy lazy;
  Loop& loop = this->fabric.StartBound("lazy", lazy.machine);
  constexpr size_t kMessages = 300;
  Asker asker(loop.addresses()[0], [&](PeerId peer, Network& network) {
    for (uint64_t id = 1; id <= kMessages; ++id) network.Send(peer, MakeMessage(id));
  });
  this->fabric.Start("asker", asker.machine);
  for (int i = 0; i < 20; ++i) loop.Post([&](Time, Network&) { EXPECT_TRUE(lazy.waiting.empty()); });
  EXPECT_TRUE(this->fabric.Until([&] { return asker.count() == kMessages; })) << asker.count();
  this->fabric.StopAll();
}

TYPED_TEST(AnyTransport, SendingToNobodyIsHarmless) {
  auto machine = std::make_shared<ScriptMachine>();
  std::atomic<bool> started = false;
  machine->on_start = [&](Time, Network& network) {
    for (const uint64_t id : {0, 1, 77}) {
      network.Send(PeerId{id}, MakeMessage(1));
      network.Disconnect(PeerId{id});
      EXPECT_EQ(network.QueuedBytes(PeerId{id}), 0u);
    }
    started = true;
  };
  this->fabric.Start("loop", machine);
  EXPECT_TRUE(this->fabric.Until([&] { return started.load(); }));
  this->fabric.StopAll();
}

}  // namespace
}  // namespace sluice::transport
