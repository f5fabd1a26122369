// Tests transport/zmq/peer_connections.h: which peers are remembered, for how long, and who is told that
// one has left.
#include "transport/zmq/peer_connections.h"

#include <gtest/gtest.h>

namespace sluice::transport {
namespace {

PeerId Id(uint64_t value) {
  return PeerId{value};
}

class PeerConnectionsTest : public ::testing::Test {
 protected:
  // Everyone who is forgotten now, in that order.
  std::vector<uint64_t> Forgotten() {
    std::vector<uint64_t> ids;
    while (const auto id = connections.Forget()) ids.push_back(id->value);
    return ids;
  }
  PeerConnections connections{2};
};

using Ids = std::vector<uint64_t>;

TEST_F(PeerConnectionsTest, WhoIsThereIsNeverForgotten) {
  for (int i = 0; i < 100; ++i) connections.OnMessage(Id(i + 1), i, true);
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(connections.size(), 100u);
}

TEST_F(PeerConnectionsTest, TheLongestGoneIsForgottenFirst) {
  for (int i = 1; i <= 4; ++i) connections.OnMessage(Id(i), i, true);
  for (const int connection : {3, 1, 4, 2}) connections.OnClosed(connection);
  EXPECT_EQ(Forgotten(), Ids({3, 1}));
  EXPECT_EQ(connections.size(), 2u);
}

TEST_F(PeerConnectionsTest, WhoComesBackInTimeStays) {
  for (int i = 1; i <= 3; ++i) connections.OnMessage(Id(i), i, true);
  connections.OnClosed(1);
  connections.OnClosed(2);
  connections.OnMessage(Id(1), 7, true);
  connections.OnClosed(3);
  EXPECT_EQ(Forgotten(), Ids());
  connections.OnClosed(7);
  EXPECT_EQ(Forgotten(), Ids({2}));
}

TEST_F(PeerConnectionsTest, WhoHasLeftIsToldOnceUnlessBack) {
  for (int i = 1; i <= 3; ++i) connections.OnMessage(Id(i), i, true);
  connections.OnClosed(2);
  connections.OnClosed(3);
  connections.OnMessage(Id(2), 7, true);
  connections.OnMessage(Id(4), 8, false);
  EXPECT_EQ(connections.TakeGone(), (std::vector{Id(3), Id(4)}));
  EXPECT_TRUE(connections.TakeGone().empty());
  connections.OnClosed(7);
  EXPECT_EQ(connections.TakeGone(), std::vector{Id(2)});
}

TEST_F(PeerConnectionsTest, WhoLeavesTwiceIsToldOnce) {
  connections.OnMessage(Id(1), 1, true);
  connections.OnClosed(1);
  connections.OnMessage(Id(1), 2, true);
  connections.OnClosed(2);
  EXPECT_EQ(connections.TakeGone(), std::vector{Id(1)});
  connections.OnMessage(Id(1), 3, true);
  connections.OnClosed(3);
  EXPECT_EQ(connections.TakeGone(), std::vector{Id(1)});
}

TEST_F(PeerConnectionsTest, WhoComesBackBeforeItsConnectionWasFoundBrokenIsThere) {
  connections.OnMessage(Id(1), 1, true);
  connections.OnMessage(Id(1), 2, true);
  connections.OnClosed(1);
  connections.OnMessage(Id(2), 1, true);  // the number, for somebody else
  connections.OnClosed(1);
  connections.OnMessage(Id(3), 3, false);
  connections.OnMessage(Id(4), 3, false);
  EXPECT_EQ(Forgotten(), Ids({2}));
  connections.OnClosed(2);
  EXPECT_EQ(Forgotten(), Ids({3}));
}

// What a connection sent may be read after it has closed, and even after another one has its number.
TEST_F(PeerConnectionsTest, WhoIsHeardLateIsGone) {
  for (uint64_t id = 1; id <= 50; ++id) connections.OnMessage(Id(id), 5, false);
  EXPECT_EQ(Forgotten().size(), 48u);
  for (uint64_t id = 51; id <= 100; ++id) connections.OnMessage(Id(id), 5, true);
  EXPECT_EQ(Forgotten().size(), 49u);
  EXPECT_EQ(connections.size(), 3u) << "one is there, two are remembered";
  connections.OnMessage(Id(100), 4, false);  // late as well, but it is there by another
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(connections.size(), 3u);
  connections.OnMessage(Id(98), 5, false);  // heard again: the other one is gone longer
  connections.OnClosed(5);
  EXPECT_EQ(Forgotten(), Ids({99}));
}

}  // namespace
}  // namespace sluice::transport
