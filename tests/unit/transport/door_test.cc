// Which connections a Door watches when their numbers change hands. That it cuts who floods:
// zmq_hostile_test.cc.
#include "transport/zmq/door.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include "unit/transport/tcp_pair.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: tcp_pair

constexpr size_t kTooMuch = 100 << 10;

class DoorTest : public ::testing::Test {
 protected:
  DoorTest() = default;
  ~DoorTest() override {
    door.reset();
    socket.Close();
    zmq_ctx_term(context);
  }
  void Tell(uint16_t what, const TcpPair& pair, const std::string& address) {
    door->OnEvent(what, pair.fd(), address, Time());
  }
  void TellAccepted(const TcpPair& pair) { Tell(ZMQ_EVENT_ACCEPTED, pair, listener.address()); }
  void TellClosed(const TcpPair& pair) { Tell(ZMQ_EVENT_DISCONNECTED, pair, listener.address()); }
  // One look finds what has come, the next one cuts.
  size_t NumCut() { return door->Look(Time()).size() + door->Look(Time()).size(); }

  void* const context = zmq_ctx_new();
  ZmqSocket socket{context, ZMQ_ROUTER};
  std::vector<int> closed;
  std::unique_ptr<Door> door = std::make_unique<Door>(
      context, &socket,
      InflowLimits{.max_partial = kTooMuch / 2, .max_unread = kTooMuch / 2, .max_strangers = kTooMuch / 2},
      [this](int connection) { closed.push_back(connection); });
  Listener listener;
};

TEST_F(DoorTest, WhoSendsTooMuchIsCutOnce) {
  TcpPair pair(listener);
  TellAccepted(pair);
  ASSERT_TRUE(pair.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 1u);
  EXPECT_TRUE(pair.other().IsClosed());
  EXPECT_EQ(NumCut(), 0u);
  TellClosed(pair);
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
}

// Its end is on its way here.
TEST_F(DoorTest, AnotherConnectionUnderTheNumberIsNotCutForIt) {
  TcpPair pair(listener), other(listener);
  TellAccepted(pair);
  ASSERT_TRUE(pair.Take(kTooMuch));
  EXPECT_TRUE(door->Look(Time()).empty());
  ASSERT_TRUE(other.Take(kTooMuch));
  pair.GiveNumberTo(other.fd());
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(other.Take(1));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
  EXPECT_FALSE(door->IsOpen(pair.fd()));
}

TEST_F(DoorTest, AListeningSocketUnderTheNumberListensOn) {
  const TcpPair pair(listener);
  TellAccepted(pair);
  ASSERT_TRUE(door->Look(Time()).empty());
  pair.GiveNumberTo(listener.fd());
  EXPECT_EQ(NumCut(), 0u);
  TcpPair next(listener);
  EXPECT_TRUE(next.Take(1));
}

TEST_F(DoorTest, ANumberThatCameAgainBeforeTheEventsWereReadIsTheLastOnes) {
  TcpPair pair(listener), other(listener);
  pair.GiveNumberTo(other.fd());
  TellAccepted(pair);  // of whom nothing can be learned any more
  TellClosed(pair);
  EXPECT_FALSE(door->IsOpen(pair.fd()));
  TellAccepted(pair);
  EXPECT_TRUE(door->IsOpen(pair.fd()));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
  ASSERT_TRUE(other.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 1u);
  EXPECT_TRUE(other.other().IsClosed());
}

TEST_F(DoorTest, ANumberThatIsNowSomebodyElsesIsNotWatched) {
  const Listener elsewhere;
  TcpPair pair(listener), other(elsewhere);
  pair.GiveNumberTo(other.fd());
  TellAccepted(pair);
  ASSERT_TRUE(other.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(other.Take(1));
}

TEST_F(DoorTest, AnAcceptanceThatIsToldTwiceEndsWhatWasThere) {
  const TcpPair pair(listener);
  TellAccepted(pair);
  TellAccepted(pair);
  EXPECT_TRUE(door->IsOpen(pair.fd()));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
}

TEST_F(DoorTest, IpcIsToldAndNotWatched) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  door->OnEvent(ZMQ_EVENT_ACCEPTED, ends[0], "ipc://@somewhere", Time());
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(door->IsOpen(ends[0]));
  door->OnEvent(ZMQ_EVENT_DISCONNECTED, ends[0], "ipc://@somewhere", Time());
  EXPECT_EQ(closed, std::vector<int>{ends[0]});
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace sluice::transport
