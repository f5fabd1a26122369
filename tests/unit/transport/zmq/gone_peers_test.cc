// Peers that come and go: who returns is who it was, and who comes ever anew costs bounded memory.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/encoded.h"
#include "unit/transport/fabric.h"
#include "unit/transport/raw_peer.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: fabric and raw peer
using sluice::testing::Encoded;

constexpr size_t kMaxGone = 10;

template <typename Fabric>
class ZmqGonePeers : public ::testing::Test {
 protected:
  void SetUp() override {
    auto echo = MakeEcho();
    echo->on_message = [this, answer = echo->on_message](Time now, PeerId from, wire::Message& message,
                                                         Network& network) {
      senders_.With([&](auto& s) { s[message.id] = from; });
      answer(now, from, message, network);
    };
    echo->on_closed = [this](PeerId peer) { closed_.With([&](auto& c) { c.insert(peer); }); };
    address_ = fabric_.StartBound("echo", echo, {.max_gone_peers = kMaxGone}).addresses()[0];
  }
  // Who asked that question.
  PeerId SenderOf(uint64_t question) {
    return senders_.With([&](auto& s) { return s[question]; });
  }
  uint64_t forgotten() { return fabric_.loop(0).counters().forgotten; }

  // Connects as `id`, asks a question, is answered, and goes.
  void Visit(const std::string& id) {
    RawDealer dealer(address_, fabric_.context().get(), id);
    dealer.Send({Encoded(MakeMessage(++question_))});
    const auto reply = wire::DecodeEnvelope(AsBytes(dealer.Receive()), wire::Limits{});
    ASSERT_TRUE(reply.ok()) << id;
    EXPECT_EQ(reply.value().in_reply_to, question_);
  }
  void VisitAnew(int times) {
    for (int i = 0; i < times; ++i) Visit(StrCat("n", 1'000'000 + newcomers_++));
  }

  Fabric fabric_;
  std::string address_;
  uint64_t question_ = 0;
  int newcomers_ = 0;
  Guarded<std::map<uint64_t, PeerId>> senders_;
  Guarded<std::set<PeerId>> closed_;
};
using GoneFabrics = ::testing::Types<TcpFabric, IpcFabric>;
TYPED_TEST_SUITE(ZmqGonePeers, GoneFabrics);

TYPED_TEST(ZmqGonePeers, WhoComesEverAnewIsForgotten) {
  this->VisitAnew(100);
  // Who left last may not be known to be gone.
  for (int more = 0; this->forgotten() < 100 - kMaxGone && more < 50; ++more) this->VisitAnew(1);
  EXPECT_GE(this->forgotten(), 100 - kMaxGone);
  std::set<PeerId> ids;
  for (uint64_t question = 1; question <= this->question_; ++question) ids.insert(this->SenderOf(question));
  EXPECT_EQ(ids.size(), this->question_) << "a PeerId came twice";
  this->fabric_.StopAll();
}

TYPED_TEST(ZmqGonePeers, TheMachineHearsWhoseConnectionHasClosed) {
  this->Visit("visitor1");
  RawDealer stays(this->address_, this->fabric_.context().get(), "stayer00");
  stays.Send({Encoded(MakeMessage(1000))});
  ASSERT_NE(stays.Receive(), "");
  this->Visit("visitor2");
  const std::set<PeerId> left = {this->SenderOf(1), this->SenderOf(2)};
  EXPECT_TRUE(this->fabric_.Until([&] { return this->closed_.With([&](auto& c) { return c == left; }); }));
  this->fabric_.StopAll();
}

// What was queued for it goes with its connection, and whoever waited for room need wait no longer.
TYPED_TEST(ZmqGonePeers, WhoLeavesWithoutReadingHasRoom) {
  TypeParam fabric;
  auto flood = std::make_shared<ScriptMachine>();
  Guarded<std::vector<PeerId>> full, rooms;
  flood->on_message = [&](Time, PeerId from, wire::Message&, Network& network) {
    const Frame frame = Frame::Of(std::make_shared<Buffer>(64 << 10));
    for (int i = 0; i < 3000; ++i) network.Send(from, MakePush(1, frame));
    if (!network.HasRoom(from)) full.With([&](auto& f) { f.push_back(from); });
  };
  flood->on_room = [&](PeerId peer) { rooms.With([&](auto& r) { r.push_back(peer); }); };
  const std::string address = fabric.StartBound("flood", flood, {.room_bytes = 1 << 20}).addresses()[0];
  {
    RawDealer dealer(address, fabric.context().get(), "unread00");  // takes 1,000 messages unread
    dealer.Send({Encoded(MakeMessage(1))});
    ASSERT_TRUE(fabric.Until([&] { return full.With([](auto& f) { return f.size(); }) == 1; }));
    EXPECT_TRUE(rooms.With([](auto& r) { return r.empty(); }));
  }
  EXPECT_TRUE(fabric.Until([&] { return rooms.With([](auto& r) { return r.size(); }) == 1; }));
  EXPECT_EQ(rooms.With([](auto& r) { return r; }), full.With([](auto& f) { return f; }));
  fabric.StopAll();
}

TYPED_TEST(ZmqGonePeers, WhoComesBackIsWhoItWasAndGetsWhatItMissed) {
  this->Visit("returner");
  this->VisitAnew(kMaxGone - 1);
  RawDealer dealer(this->address_, this->fabric_.context().get(), "returner");
  dealer.Send({Encoded(MakeMessage(1000))});
  ASSERT_NE(dealer.Receive(), "");
  EXPECT_EQ(this->SenderOf(1000), this->SenderOf(1));
  this->fabric_.loop(0).Post([held = this->SenderOf(1)](Time, Network& network) {
    wire::Message reply = MakeMessage(0, wire::Ack{});
    reply.in_reply_to = 77;
    network.Send(held, std::move(reply));
  });
  const auto reply = wire::DecodeEnvelope(AsBytes(dealer.Receive()), wire::Limits{});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().in_reply_to, 77u);
  EXPECT_EQ(this->forgotten(), 0u);
  this->fabric_.StopAll();
}

TYPED_TEST(ZmqGonePeers, WhoComesBackTooLateIsSomebodyNew) {
  this->Visit("returner");
  const uint64_t before = this->question_;
  for (int more = 0; this->forgotten() == 0 && more < 100; ++more) this->VisitAnew(1);
  this->Visit("returner");
  EXPECT_NE(this->SenderOf(this->question_), this->SenderOf(before));
  this->fabric_.StopAll();
}

// However long it is silent and whoever comes and goes meanwhile.
TYPED_TEST(ZmqGonePeers, WhoStaysIsNotForgotten) {
  RawDealer dealer(this->address_, this->fabric_.context().get(), "stayer00");
  dealer.Send({Encoded(MakeMessage(1000))});
  ASSERT_NE(dealer.Receive(), "");
  for (int more = 0; this->forgotten() < 2 * kMaxGone && more < 100; ++more) this->VisitAnew(1);
  dealer.Send({Encoded(MakeMessage(1001))});
  ASSERT_NE(dealer.Receive(), "");
  EXPECT_EQ(this->SenderOf(1000), this->SenderOf(1001));
  this->fabric_.StopAll();
}

}  // namespace
}  // namespace sluice::transport
