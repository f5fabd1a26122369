// Unauthenticated connections, and members gone wrong, do nothing to a bound port while an echo goes on.
#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "unit/encoded.h"
#include "unit/transport/fabric.h"
#include "unit/transport/raw_peer.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: fabric and raw peer
using sluice::testing::Encoded;

constexpr int64_t kMiB = 1 << 20;
// More than an allocator's caches, less than what the floods below send. TSan reads the program's debug
// information, as much again, when it first meets a race of libzmq's: what it holds says nothing.
#if defined(__SANITIZE_THREAD__)
constexpr int64_t kMaxGrowth = std::numeric_limits<int64_t>::max();
#else
constexpr int64_t kMaxGrowth = 48 * kMiB;
#endif
constexpr int64_t kMaxMessage = 8 * kMiB;

class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    auto echo = MakeEcho();
    echo->on_message = [this, answer = echo->on_message](Time now, PeerId from, wire::Message& message,
                                                         Network& network) {
      ++heard_;
      answer(now, from, message, network);
    };
    address_ = fabric_.StartBound("echo", echo, Options()).addresses()[0];
    // A client that asks again as soon as it is answered.
    auto client = std::make_shared<ScriptMachine>();
    client->on_start = [this](Time, Network& network) {
      network.Send(network.Connect(address_), MakeMessage(1));
    };
    client->on_message = [this](Time, PeerId from, wire::Message& message, Network& network) {
      answered_ = message.in_reply_to;
      network.Send(from, MakeMessage(message.in_reply_to + 1));
    };
    fabric_.Start("client", client);
    ExpectAlive();
    resident_ = ResidentBytes();
  }
  static LoopOptions Options() {
    LoopOptions options{.handshake_timeout = 1s};
    options.limits.max_message_bytes = kMaxMessage;
    return options;
  }

  void ExpectAlive() {
    const uint64_t before = answered_;
    EXPECT_TRUE(fabric_.Until([&] { return answered_ > before + 300; })) << "the echo has stopped";
  }
  // Only the client was heard.
  void ExpectUnheard() {
    ExpectAlive();
    EXPECT_EQ(fabric_.loop(0).counters().bad, 0u);
    EXPECT_LE(ResidentBytes() - resident_, kMaxGrowth);
  }
  // As much as the other end takes, at most `bytes`.
  static void Flood(RawTcp* tcp, const std::string& block, int64_t bytes) {
    for (int64_t sent = 0; sent < bytes; sent += static_cast<int64_t>(block.size())) {
      if (!tcp->Send(block)) return;
    }
  }

  std::atomic<uint64_t> heard_ = 0, answered_ = 0;
  TcpFabric fabric_;
  std::string address_;
  int64_t resident_ = 0;
};

TEST_F(Hostile, RandomBytes) {
  Rng rng(7);
  for (int i = 0; i < 50; ++i) {
    RawTcp tcp(address_);
    ASSERT_TRUE(tcp.connected());
    std::string bytes(rng.Below(20000), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.Next());
    if (i % 2 == 0 && bytes.size() > 12) bytes.replace(0, 12, ZmtpGreeting("PLAIN").substr(0, 12));
    tcp.Send(bytes);
  }
  ExpectUnheard();
}

TEST_F(Hostile, ANullSocketGetsNothingThrough) {
  RawDealer dealer(address_, nullptr);
  for (int i = 0; i < 100; ++i) dealer.Send({Encoded(MakeMessage(1))});
  ExpectUnheard();
  const uint64_t heard = heard_;
  EXPECT_LE(heard, answered_ + 2) << "somebody else was heard";
}

TEST_F(Hostile, TheFirstZmtpVersionIsNoWayIn) {
  RawTcp tcp(address_);
  // ZMTP 1.0: an anonymous peer, then a frame.
  const std::string envelope = Encoded(MakeMessage(1));
  tcp.Send(std::string("\x01\x00", 2) + static_cast<char>(envelope.size() + 1) + std::string(1, '\0') +
           envelope);
  EXPECT_TRUE(tcp.IsClosed());
  ExpectUnheard();
}

TEST_F(Hostile, OversizedLengths) {
  for (const char* mechanism : {"PLAIN", "NULL", "CURVE"}) {
    for (const unsigned char flags : {2, 3, 6}) {  // long: last, more, command
      RawTcp tcp(address_);
      tcp.Send(ZmtpGreeting(mechanism) + static_cast<char>(flags) +
               std::string("\x3f\xff\xff\xff\xff\xff\xff\xff", 8));
      Flood(&tcp, std::string(kMiB, 'x'), 100 * kMiB);
    }
  }
  ExpectUnheard();
}

TEST_F(Hostile, EndlessMultiparts) {
  std::string block;
  while (block.size() < kMiB) block += std::string("\x01\xff", 2) + std::string(255, 'x');  // MORE, 255 bytes
  for (const std::string& opening :
       {ZmtpGreeting("NULL"), ZmtpGreeting("PLAIN"), std::string("\x01\x00", 2),
        // A HELLO with somebody's name and no secret.
        ZmtpGreeting("PLAIN") + std::string("\x04\x0e\x05HELLO\x04user\x02no", 16)}) {
    RawTcp tcp(address_);
    tcp.Send(opening);
    Flood(&tcp, block, 200 * kMiB);
  }
  ExpectUnheard();
}

TEST_F(Hostile, ManyIdleConnections) {
  std::vector<std::unique_ptr<RawTcp>> idle;
  for (int i = 0; i < 200; ++i) idle.push_back(std::make_unique<RawTcp>(address_));
  ExpectUnheard();
  // Who does not authenticate in time is cut.
  EXPECT_TRUE(idle.front()->IsClosed());
}

TEST_F(Hostile, AnotherJobsSecretGetsNothingThrough) {
  for (const ZmqContextOptions& options :
       {ZmqContextOptions{"test", "wrong"}, ZmqContextOptions{"other", "open sesame"},
        ZmqContextOptions{"test", ""}, ZmqContextOptions{"test", "open sesame "}}) {
    const uint64_t before = fabric_.context()->refused();
    const auto context = std::make_shared<ZmqContext>(options);
    RawDealer dealer(address_, context.get());
    dealer.Send({Encoded(MakeMessage(1))});
    EXPECT_TRUE(Eventually([&] { return fabric_.context()->refused() > before; }));
  }
  ExpectUnheard();
}

TEST_F(Hostile, ALoopWithAnotherSecretLearnsWhoRefusedIt) {
  auto machine = std::make_shared<ScriptMachine>();
  std::atomic<uint64_t> asked = 0, refused = 0;
  machine->on_start = [&](Time, Network& network) {
    const PeerId peer = network.Connect(address_);
    network.Send(peer, MakeMessage(1));
    asked = peer.value;
  };
  machine->on_refused = [&](PeerId peer) { refused = peer.value; };
  const ZmqLoop loop(std::make_shared<ZmqContext>(ZmqContextOptions{"test", "wrong"}), machine,
                     {.job = kJob});
  EXPECT_TRUE(Eventually([&] { return asked != 0 && refused == asked; }));
  ExpectUnheard();
}

TEST_F(Hostile, AMemberOfAnotherVersionIsToldSoInItsOwn) {
  RawDealer dealer(address_, fabric_.context().get());
  dealer.Send({Encoded(MakeMessage(7), 9)});
  std::string reply = dealer.Receive();
  ASSERT_GT(reply.size(), 5u);
  EXPECT_EQ(reply.substr(0, 5), std::string("\x0d\x09\x00\x00\x00", 5));
  reply[1] = 1;  // only the version differs
  const auto message = wire::DecodeEnvelope(AsBytes(reply), wire::Limits{});
  ASSERT_TRUE(message.ok()) << message.failure().message;
  EXPECT_EQ(message.value().in_reply_to, 7u);
  EXPECT_EQ(message.value().job, kJob);
  const auto& error = std::get<wire::ErrorReply>(message.value().body);
  EXPECT_NE(error.message.find("version 9"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("version 1"), std::string::npos) << error.message;
  ExpectAlive();
}

TEST_F(Hostile, AMemberOfAnotherJobIsToldSo) {
  RawDealer dealer(address_, fabric_.context().get());
  wire::Message message = MakeMessage(3);
  message.job = kJob + 1;
  dealer.Send({Encoded(message)});
  const auto reply = wire::DecodeEnvelope(AsBytes(dealer.Receive()), wire::Limits{});
  ASSERT_TRUE(reply.ok()) << reply.failure().message;
  EXPECT_EQ(reply.value().job, kJob + 1);
  EXPECT_EQ(std::get<wire::ErrorReply>(reply.value().body).code, ErrorCode::kPermissionDenied);
  ExpectAlive();
}

TEST_F(Hostile, AMembersBadMessagesAreCountedAndItIsMuted) {
  const std::string good = Encoded(MakeMessage(1));
  const std::string push = Encoded(MakeMessage(1, wire::Push{.parts = {{}}}));
  wire::Limits limits;
  const std::vector<std::vector<std::string>> bad = {
      {""},                                                          // empty
      {"garbage"},                                                   // no envelope
      {good.substr(0, good.size() - 1)},                             // cut off
      {good, "payload"},                                             // a frame too many
      {push},                                                        // a frame too few
      std::vector<std::string>(limits.max_payload_frames + 2, "x"),  // frames over the limit
      {Encoded(MakeMessage(1, wire::Push{.divisor = 0}))}};          // a value out of range
  RawDealer dealer(address_, fabric_.context().get());
  uint64_t sent = 0;
  while (sent < 16) {
    for (const auto& frames : bad) {
      dealer.Send(frames);
      ++sent;
    }
  }
  for (int i = 0; i < 100; ++i) dealer.Send({good});
  const auto counted = [&] {
    const ZmqCounters c = fabric_.loop(0).counters();
    return c.bad + c.muted;
  };
  EXPECT_TRUE(Eventually([&] { return counted() == sent + 100; })) << counted();
  EXPECT_EQ(fabric_.loop(0).counters().bad, 16u);
  ExpectAlive();
}

TEST_F(Hostile, AMembersPayloadLiesInOnePlaceOnly) {
  RawDealer dealer(address_, fabric_.context().get());
  wire::Message message = MakeMessage(5, wire::Push{.parts = wire::PartList<wire::PushPart>(2)});
  message.payload = {Frame::Copy(AsBytes("four"))};
  dealer.Send({Encoded(message), "four"});  // one inside, one beside: two parts, two frames
  EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().bad == 1; }));
  ExpectAlive();
}

TEST_F(Hostile, AMembersPackedFramesFillTheirFrame) {
  RawDealer dealer(address_, fabric_.context().get());
  wire::Message message = MakeMessage(5, wire::Push{.parts = wire::PartList<wire::PushPart>(2)});
  message.packed = {3, 1000};
  dealer.Send({Encoded(message), "four"});
  EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().bad == 1; }));
  ExpectAlive();
}

TEST_F(Hostile, AMembersHugeMessageIsReadAndThrownAway) {
  RawDealer dealer(address_, fabric_.context().get());
  wire::Message message = MakeMessage(5, wire::Push{.parts = wire::PartList<wire::PushPart>(30)});
  std::vector<std::string> frames = {Encoded(message)};
  // Over the limit by so little that its connection is not cut while the rest is on its way.
  for (int i = 0; i < 30; ++i) frames.emplace_back(kMaxMessage / 30 + 100, 'x');
  dealer.Send(frames);
  EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().bad == 1; }));
  dealer.Send({Encoded(MakeMessage(6))});
  const auto reply = wire::DecodeEnvelope(AsBytes(dealer.Receive()), wire::Limits{});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().in_reply_to, 6u);
  ExpectAlive();
}

// What it costs in memory: tests/cluster/hostile_test.py. A sanitizer's own memory would hide it here.
TEST_F(Hostile, AMembersEndlessMultipartIsCutOff) {
  std::string block;
  while (block.size() < kMiB) block += std::string("\x01\0", 2);
  for (int i = 0; i < 2; ++i) {
    RawTcp tcp(address_);
    ASSERT_TRUE(JoinByHand(&tcp, *fabric_.context()));
    if (i == 1) tcp.Send(std::string("\0\1x", 3));  // a whole message: it has brought a message
    bool cut = false;
    for (int64_t sent = 0; !cut && sent < 1000 * kMiB; sent += kMiB) cut = !tcp.Send(block);
    EXPECT_TRUE(cut);
    EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().cut == i + 1u; }));
    ExpectAlive();
    EXPECT_EQ(fabric_.context()->refused(), 0u);
  }
}

TEST_F(Hostile, AMemberWhoseOneMessageArrivesByBitsIsHeard) {
  RawTcp tcp(address_);
  ASSERT_TRUE(JoinByHand(&tcp, *fabric_.context()));
  // A bad message is counted, so that no other peer's is mistaken for it.
  const std::string envelope = Encoded(MakeMessage(1, wire::Push{.divisor = 0}));
  const std::string message = std::string(1, '\0') + static_cast<char>(envelope.size()) + envelope;
  for (int i = 0; i < 10; ++i) {
    for (const char c : message) ASSERT_TRUE(tcp.Send(std::string(1, c)));
  }
  EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().bad == 10; }));
  EXPECT_EQ(fabric_.loop(0).counters().cut, 0u);
  ExpectAlive();
}

// Each stays under every bound of its own.
TEST_F(Hostile, ManyUnauthenticatedPeersTogetherAreBounded) {
  std::vector<std::unique_ptr<RawTcp>> unauthenticated;
  for (int i = 0; i < 60; ++i) {
    unauthenticated.push_back(std::make_unique<RawTcp>(address_));
    const std::string opening = ZmtpGreeting("PLAIN") + std::string("\x06\0\0\0\0\0\xf0\0\0", 9);
    unauthenticated.back()->Send(opening);  // a command of 15 MiB
    Flood(unauthenticated.back().get(), std::string(kMiB, 'x'), 14 * kMiB);
  }
  EXPECT_TRUE(Eventually([&] { return fabric_.loop(0).counters().cut > 20; }));
  ExpectAlive();
}

TEST(HostileTcp6, AMembersEndlessMultipartIsCutOff) {
  Tcp6Fabric fabric;
  RawTcp tcp(fabric.StartBound("echo", MakeEcho(), {}).addresses()[0]);
  ASSERT_TRUE(JoinByHand(&tcp, *fabric.context()));
  std::string block;
  while (block.size() < kMiB) block += std::string("\x01\0", 2);
  bool cut = false;
  for (int64_t sent = 0; !cut && sent < 1000 * kMiB; sent += kMiB) cut = !tcp.Send(block);
  EXPECT_TRUE(cut);
  EXPECT_TRUE(Eventually([&] { return fabric.loop(0).counters().cut == 1; }));
}

TEST(SameSecret, ComparesAllOfIt) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  for (const char* other : {"", "a", "ab", "abd", "xbc", "abcd", "abcabc"})
    EXPECT_FALSE(SameSecret("abc", other)) << other;
  EXPECT_FALSE(SameSecret("", "a"));
}

}  // namespace
}  // namespace sluice::transport
