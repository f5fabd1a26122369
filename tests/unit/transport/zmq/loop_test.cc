// Tests the ZeroMQ loop on real sockets: what it copies, bounds and promises beyond the contract that
// tests/contract has for all loops.
#include "transport/zmq/loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cmath>
#include <future>
#include <thread>

#include "sluice/error.h"
#include "unit/transport/fabric.h"
#include "unit/transport/raw_peer.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: the fabrics

// Counts what arrives. Thread-safe.
struct LoopSink {
  LoopSink() {
    machine->on_message = [this](Time, PeerId, wire::Message& message, Network&) {
      messages.With([&](auto& m) { m.push_back(std::move(message)); });
      ++count;
    };
  }
  std::shared_ptr<ScriptMachine> machine = std::make_shared<ScriptMachine>();
  std::atomic<int> count = 0;
  Guarded<std::vector<wire::Message>> messages;
};

class ZmqLoopTest : public ::testing::Test {
 protected:
  // An echo that answers `n` questions of a new client proves that a loop is alive and well.
  void ExpectEchoWorks(const std::string& address, uint64_t n = 20) {
    LoopSink sink;
    sink.machine->on_start = [&](Time, Network& network) {
      const PeerId peer = network.Connect(address);
      for (uint64_t id = 1; id <= n; ++id) network.Send(peer, MakeMessage(id));
    };
    fabric.Start("client", sink.machine);
    EXPECT_TRUE(fabric.Until([&] { return sink.count == static_cast<int>(n); })) << sink.count;
    fabric.StopLast();
  }
  // Nothing lingers.
  void ExpectContextCloses() {
    fabric.StopAll();
    std::future<void> closed = std::async(std::launch::async, [this] { fabric.CloseContext(); });
    EXPECT_EQ(closed.wait_for(30s), std::future_status::ready);
  }
  TcpFabric fabric;
};

TEST_F(ZmqLoopTest, AChannelThatAlwaysHasSomethingKeepsNoOtherFromBeingHeard) {
  constexpr int kFlood = 10'000;
  auto loud = std::make_shared<ScriptMachine>();
  loud->on_message = [](Time, PeerId from, wire::Message&, Network& network) {
    for (uint64_t id = 1; id <= kFlood; ++id) network.Send(from, MakeMessage(id));
  };
  std::promise<void> flooded, quiet_has_spoken;
  std::atomic<PeerId> asker{};
  auto quiet = std::make_shared<ScriptMachine>();
  quiet->on_message = [&](Time, PeerId from, wire::Message&, Network&) { asker = from; };
  const std::string loud_address = fabric.StartBound("loud", loud).addresses()[0];
  Loop& speaker = fabric.StartBound("quiet", quiet);
  const std::string quiet_address = speaker.addresses()[0];

  std::atomic<int> heard = 0, heard_before_the_quiet_one = -1;
  PeerId loud_peer{}, quiet_peer{};
  auto listener = std::make_shared<ScriptMachine>();
  listener->on_start = [&](Time, Network& network) {
    loud_peer = network.Connect(loud_address);
    quiet_peer = network.Connect(quiet_address);
    network.Send(quiet_peer, MakeMessage(1));
  };
  listener->on_message = [&](Time, PeerId from, wire::Message&, Network&) {
    if (from == quiet_peer) {
      heard_before_the_quiet_one = heard.load();
    } else if (++heard == 1) {  // the rest comes in while the loop stands here
      flooded.set_value();
      quiet_has_spoken.get_future().wait();
    } else {  // slower than messages come
      const Time end = SteadyClock().Now() + 20us;
      while (SteadyClock().Now() < end) continue;
    }
  };
  Loop& loop = fabric.Start("listener", listener);
  ASSERT_TRUE(fabric.Until([&] { return asker.load() != PeerId{}; }));
  loop.Post([&](Time, Network& network) { network.Send(loud_peer, MakeMessage(1)); });
  ASSERT_EQ(flooded.get_future().wait_for(30s), std::future_status::ready);
  speaker.Post([&](Time, Network& network) {
    network.Send(asker, MakeMessage(2));
    quiet_has_spoken.set_value();
  });
  ASSERT_TRUE(fabric.Until([&] { return heard == kFlood && heard_before_the_quiet_one >= 0; }));
  EXPECT_LT(heard_before_the_quiet_one, kFlood);
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, SentFramesAreNotCopiedAndLetGoOnceSent) {
  // Memory changed after Send and before anybody listens arrives changed: nothing was copied.
  IpcFabric ipc;
  const std::string address = ipc.address();
  auto buffer = std::make_shared<Buffer>(1 << 20);
  std::memset(buffer->data(), 'a', buffer->size());
  std::weak_ptr<Buffer> watch = buffer;
  std::atomic<bool> sent = false;
  auto sender = std::make_shared<ScriptMachine>();
  PeerId peer;
  sender->on_start = [&](Time, Network& network) {
    peer = network.Connect(address);
    network.Send(peer, MakePush(1, Frame::Of(buffer)));
    EXPECT_GE(network.QueuedBytes(peer), buffer->size());
    sent = true;
  };
  std::atomic<uint64_t> queued = 1;
  sender->on_message = [&](Time, PeerId from, wire::Message&, Network& network) {
    queued = network.QueuedBytes(from);
  };
  ipc.Start("sender", sender);
  ASSERT_TRUE(ipc.Until([&] { return sent.load(); }));
  std::memset(buffer->data(), 'b', buffer->size());
  buffer.reset();
  EXPECT_FALSE(watch.expired());

  LoopSink sink;
  const auto note = sink.machine->on_message;
  sink.machine->on_message = [&](Time now, PeerId from, wire::Message& message, Network& network) {
    wire::Message reply = MakeMessage(2, wire::Ack{});
    network.Send(from, std::move(reply));
    note(now, from, message, network);
  };
  ipc.StartBound("sink", sink.machine);
  ASSERT_TRUE(ipc.Until([&] { return sink.count == 1 && queued != 1; }));
  sink.messages.With([](auto& m) {
    EXPECT_EQ(m[0].payload[0].size(), size_t{1} << 20);
    EXPECT_EQ(AsText(m[0].payload[0].bytes()).find_first_not_of('b'), std::string_view::npos);
  });
  // The answer came after the whole message had left, and the frame with it.
  EXPECT_EQ(queued, 0u);
  EXPECT_TRUE(watch.expired());
  ipc.StopAll();
}

TEST_F(ZmqLoopTest, ReceivedFramesStayWhereTheyAre) {
  LoopSink sink;
  std::vector<const std::byte*> addresses;
  const auto note = sink.machine->on_message;
  sink.machine->on_message = [&](Time now, PeerId from, wire::Message& message, Network& network) {
    addresses.push_back(message.payload[0].data());
    note(now, from, message, network);
  };
  const std::string address = fabric.StartBound("sink", sink.machine).addresses()[0];
  LoopSink client;
  const std::vector<size_t> sizes = {1, 33, 500, 5000, 500000};
  client.machine->on_start = [&](Time, Network& network) {
    const PeerId peer = network.Connect(address);
    for (size_t i = 0; i < sizes.size(); ++i) {
      network.Send(peer,
                   MakePush(i, Frame::Copy(AsBytes(std::string(sizes[i], static_cast<char>('a' + i))))));
    }
  };
  fabric.Start("client", client.machine);
  ASSERT_TRUE(fabric.Until([&] { return sink.count == 5; }));
  std::vector<wire::Message> kept = sink.messages.With([](auto& m) { return std::move(m); });
  fabric.StopAll();  // frames outlive their loop
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].payload[0].data(), addresses[i]);
    EXPECT_EQ(AsText(kept[i].payload[0].bytes()), std::string(sizes[i], static_cast<char>('a' + i)));
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, SmallFramesShareOneOnTheWire) {
  LoopSink sink;
  const std::string address = fabric.StartBound("sink", sink.machine).addresses()[0];
  std::vector<std::string> payload;
  for (char c = 'a'; c <= 'z'; ++c) payload.emplace_back(4096 + c, c);
  LoopSink client;
  client.machine->on_start = [&](Time, Network& network) {
    wire::Message message =
        MakeMessage(1, wire::Push{.parts = wire::PartList<wire::PushPart>(payload.size())});
    for (const std::string& frame : payload) message.payload.push_back(Frame::Copy(AsBytes(frame)));
    network.Send(network.Connect(address), std::move(message));
  };
  fabric.Start("client", client.machine);
  ASSERT_TRUE(fabric.Until([&] { return sink.count == 1; }));
  sink.messages.With([&](auto& messages) {
    const wire::Frames& arrived = messages[0].payload;
    ASSERT_EQ(arrived.size(), payload.size());
    for (size_t i = 0; i < payload.size(); ++i) {
      EXPECT_EQ(AsText(arrived[i].bytes()), payload[i]);
      EXPECT_EQ(arrived[i].owner(), arrived[0].owner());
    }
  });
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, NothingLingersForADisconnectedPeerOrAMachineThatCaresNot) {
  for (const bool disconnects : {true, false}) {
    auto machine = std::make_shared<ScriptMachine>();
    machine->on_start = [disconnects](Time, Network& network) {
      const PeerId nobody = network.Connect("ipc://@sluice-test-nobody-listens");
      network.Send(nobody, MakeMessage(1));
      if (disconnects) network.Disconnect(nobody);
    };
    if (!disconnects) machine->linger = Duration::zero();
    machine->done = true;
    fabric.Start("loop", machine, {.linger = std::chrono::hours(24)});
    EXPECT_TRUE(fabric.loop(disconnects ? 0 : 1).Join(30s));
  }
  ExpectContextCloses();
}

TEST_F(ZmqLoopTest, APeerThatTakesNothingCostsBoundedMemory) {
  auto buffer = std::make_shared<Buffer>(1 << 20);
  std::atomic<uint64_t> queued = 0, other = 0;
  auto machine = std::make_shared<ScriptMachine>();
  LoopSink sink;
  const std::string alive = fabric.StartBound("alive", sink.machine).addresses()[0];
  machine->on_start = [&](Time, Network& network) {
    const PeerId nobody = network.Connect("ipc:///nonexistent/nobody");
    for (int i = 0; i < 100; ++i) network.Send(nobody, MakePush(1, Frame::Of(buffer)));
    queued = network.QueuedBytes(nobody);
    const PeerId peer = network.Connect(alive);  // is not held up
    network.Send(peer, MakePush(2, Frame::Of(buffer)));
    other = 1;
  };
  fabric.Start("sender", machine, {.max_queued_bytes = 10 << 20});
  ASSERT_TRUE(fabric.Until([&] { return other == 1 && sink.count == 1; }));
  EXPECT_GE(queued, 8u << 20);
  EXPECT_LE(queued, 10u << 20);
  EXPECT_GE(fabric.loop(1).counters().overflowed, 90u);
  fabric.StopAll();
  sink.messages.With([](auto& m) { m.clear(); });
  fabric.CloseContext();
  EXPECT_EQ(buffer.use_count(), 1) << "ZeroMQ still holds frames";
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, AMachineHearsOfRoomOnceWhatWasQueuedHasLeft) {
  IpcFabric ipc;
  auto buffer = std::make_shared<Buffer>(1 << 20);
  std::memset(buffer->data(), 'a', buffer->size());
  std::atomic<int> rooms = 0;
  std::atomic<bool> full = false;
  auto machine = std::make_shared<ScriptMachine>();
  PeerId peer;
  machine->on_room = [&](PeerId of) {
    EXPECT_EQ(of, peer);
    ++rooms;
  };
  machine->on_start = [&](Time, Network& network) {
    peer = network.Connect(ipc.address());
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(network.HasRoom(peer), i < 9) << i;  // nobody is there yet
      network.Send(peer, MakePush(1, Frame::Of(buffer)));
    }
    full = !network.HasRoom(peer);
  };
  auto& loop = ipc.Start("sender", machine, {.room_bytes = (8 << 20) + (512 << 10)});
  ASSERT_TRUE(ipc.Until([&] { return full.load(); }));
  EXPECT_EQ(rooms, 0);
  LoopSink sink;
  ipc.StartBound("sink", sink.machine);
  ASSERT_TRUE(ipc.Until([&] { return rooms == 1 && sink.count == 12; }));
  std::atomic<bool> has_room = false;
  loop.Post([&](Time, Network& network) { has_room = network.HasRoom(peer); });
  ASSERT_TRUE(Eventually([&] { return has_room.load(); }));
  EXPECT_EQ(rooms, 1);
  ipc.StopAll();
}

TEST_F(ZmqLoopTest, WhoseConnectionEndsHasRoom) {
  std::atomic<int> rooms = 0;
  std::atomic<bool> full = false;
  auto machine = std::make_shared<ScriptMachine>();
  PeerId nobody;
  machine->on_room = [&](PeerId of) {
    EXPECT_EQ(of, nobody);
    ++rooms;
  };
  machine->on_start = [&](Time, Network& network) {
    nobody = network.Connect("ipc:///nonexistent/nobody");
    network.Send(nobody, MakePush(1, Frame::Of(std::make_shared<Buffer>(1 << 20))));
    full = !network.HasRoom(nobody);
  };
  auto& loop = fabric.Start("sender", machine, {.room_bytes = 1 << 10});
  ASSERT_TRUE(fabric.Until([&] { return full.load(); }));
  loop.Post([&](Time, Network& network) {
    network.Disconnect(nobody);
    EXPECT_TRUE(network.HasRoom(nobody));
  });
  ASSERT_TRUE(fabric.Until([&] { return rooms == 1; }));
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, ManyThreadsPostEachInItsOrder) {
  auto machine = std::make_shared<ScriptMachine>();
  auto& loop = fabric.Start("loop", machine);
  constexpr int kThreads = 4, kTasks = 2000;
  std::vector<std::vector<int>> seen(kThreads);  // touched by the loop only
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        loop.Post([&, t, i](Time, Network&) {
          seen[t].push_back(i);
          ++count;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loop.Post([&](Time, Network&) { fabric.Touch(); });
  ASSERT_TRUE(fabric.Until([&] { return count == kThreads * kTasks; }));
  for (const auto& order : seen) {
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(order[i], i);
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, AnAddressInUseIsAnErrorThatSaysWhatToDo) {
  auto& loop = fabric.StartBound("first", MakeEcho());
  try {
    fabric.Start("second", MakeEcho(),
                 {.bind = {loop.addresses()[0]}, .bind_advice = "set DMLC_PS_ROOT_PORT to a free port"});
    FAIL() << "bound twice";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(e.what()).find(loop.addresses()[0]), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("DMLC_PS_ROOT_PORT"), std::string::npos) << e.what();
  }
  for (const char* address :
       {"tcp://192.0.2.1:0", "nonsense", "tcp://127.0.0.1:99999", "ipc:///nonexistent/x"}) {
    EXPECT_THROW(fabric.Start("bad", MakeEcho(), {.bind = {address}}), Error) << address;
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, SeveralAddressesOneLoop) {
  IpcFabric other;
  auto& loop =
      fabric.Start("echo", MakeEcho(), {.bind = {"tcp://127.0.0.1:0", "tcp://[::1]:0", other.address()}});
  ASSERT_EQ(loop.addresses().size(), 3u);
  for (const std::string& address : loop.addresses()) {
    EXPECT_EQ(address.find(":0", address.size() - 2), std::string::npos) << address;
    ExpectEchoWorks(address);
  }
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, AnAddressThatIsNoneIsAnErrorInTheMachine) {
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_start = [](Time, Network& network) { network.Connect("tcp:/127.0.0.1"); };
  fabric.Start("loop", machine);
  // The machine did not catch it: the loop has ended and says why; the process lives.
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_NE(fabric.loop(0).failure().find("tcp:/127.0.0.1"), std::string::npos) << fabric.loop(0).failure();
  bool ran = false;
  EXPECT_FALSE(fabric.loop(0).Post([&](Time, Network&) { ran = true; }));
  EXPECT_FALSE(ran);
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, JoinReportsADeadlineAndTheEnd) {
  auto machine = std::make_shared<ScriptMachine>();
  auto& loop = fabric.Start("loop", machine);
  EXPECT_FALSE(fabric.loop(0).Join(1ms));
  loop.Post([&](Time, Network&) { machine->done = true; });
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_EQ(fabric.loop(0).failure(), "");
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, SeveralThreadsMayStopALoopAndEachReturnsAtItsEnd) {
  constexpr int kStoppers = 4;
  std::atomic<int> stopping = 0;
  std::atomic<bool> ended = false;
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_end = [&](const std::string&) {
    while (stopping < kStoppers) std::this_thread::yield();
    ended = true;
  };
  fabric.Start("loop", machine);
  std::vector<std::thread> stoppers;
  for (int i = 0; i < kStoppers; ++i) {
    stoppers.emplace_back([&] {
      ++stopping;
      fabric.loop(0).Stop();
      EXPECT_TRUE(ended);
    });
  }
  for (std::thread& stopper : stoppers) stopper.join();
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, TheMachineHearsOfTheEndAndNoTakenTaskIsLost) {
  std::vector<std::string> order;
  auto machine = std::make_shared<ScriptMachine>();
  machine->on_end = [&](const std::string&) { order.emplace_back("end"); };
  auto& loop = fabric.Start("loop", machine);
  std::promise<void> posted;
  loop.Post([&](Time, Network&) {
    posted.get_future().wait();
    machine->done = true;
  });
  // Taken while the loop still runs, overtaken by its end.
  EXPECT_TRUE(loop.Post([&](Time, Network&) { order.emplace_back("task"); }));
  posted.set_value();
  EXPECT_TRUE(fabric.loop(0).Join(30s));
  EXPECT_EQ(std::count(order.begin(), order.end(), "end"), 1);
  EXPECT_EQ(std::count(order.begin(), order.end(), "task"), 1);
  EXPECT_FALSE(loop.Post([&](Time, Network&) { order.emplace_back("late"); }));
  fabric.loop(0).Stop();
  EXPECT_EQ(order.size(), 2u);
  fabric.StopAll();
}

TEST_F(ZmqLoopTest, DropsReceivedMessagesAsOftenAsAsked) {
  constexpr int kMessages = 5000;
  LoopSink sink;
  const std::string address =
      fabric.StartBound("sink", sink.machine, {.drop_received = 0.1, .drop_seed = 3}).addresses()[0];
  LoopSink client;
  client.machine->on_start = [&](Time, Network& network) {
    const PeerId peer = network.Connect(address);
    for (uint64_t id = 1; id <= kMessages; ++id) network.Send(peer, MakeMessage(id));
  };
  fabric.Start("client", client.machine);
  const auto counters = [&] { return fabric.loop(0).counters(); };
  ASSERT_TRUE(Eventually([&] { return counters().received + counters().thrown_away == kMessages; }));
  EXPECT_TRUE(Eventually([&] { return sink.count == static_cast<int>(counters().received); }));
  const double thrown = static_cast<double>(counters().thrown_away);
  EXPECT_NEAR(thrown, kMessages * 0.1, 5 * std::sqrt(kMessages * 0.1 * 0.9));
  fabric.StopAll();
}

// The congestion controls of this process's established TCP connections with an end at `port`.
std::vector<std::string> CongestionControlsAt(uint16_t port) {
  std::vector<std::string> controls;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in local{}, peer{};
    socklen_t local_size = sizeof local, peer_size = sizeof peer;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0 ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
        (ntohs(local.sin_port) != port && ntohs(peer.sin_port) != port))
      continue;
    char name[16] = "";
    socklen_t size = sizeof name;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0) controls.emplace_back(name);
  }
  return controls;
}

TEST_F(ZmqLoopTest, BothEndsOfAConnectionWithinAHostDoNotPace) {
  LoopSink sink, client;
  sink.machine->on_message = [&](Time, PeerId from, wire::Message&, Network& network) {
    network.Send(from, MakeMessage(2, wire::Ack{}));
  };
  const std::string address = fabric.StartBound("sink", sink.machine).addresses()[0];
  client.machine->on_start = [&](Time, Network& network) {
    network.Send(network.Connect(address), MakeMessage(1));
  };
  fabric.Start("client", client.machine);
  ASSERT_TRUE(fabric.Until([&] { return client.count == 1; }));
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  // Each loop hears of its connection before its first message, or at its next look.
  EXPECT_TRUE(Eventually([&] {
    return CongestionControlsAt(port) == std::vector<std::string>{"reno", "reno"};
  }));
  fabric.StopAll();
}

}  // namespace
}  // namespace sluice::transport
