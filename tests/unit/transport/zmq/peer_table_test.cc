// Tests transport/zmq/peer_table.h: which peers are remembered, for how long, and who is told that one has
// left.
#include "transport/zmq/peer_table.h"

#include <gtest/gtest.h>

namespace sluice::transport {
namespace {

PeerId Id(uint64_t value) {
  return PeerId{value};
}

class PeerTableTest : public ::testing::Test {
 protected:
  // Everyone who is forgotten now, in that order.
  std::vector<uint64_t> Forgotten() {
    std::vector<uint64_t> ids;
    while (const auto id = table.Forget()) ids.push_back(id->value);
    return ids;
  }
  PeerTable table{2};
};

using Ids = std::vector<uint64_t>;

TEST_F(PeerTableTest, WhoIsThereIsNeverForgotten) {
  for (int i = 0; i < 100; ++i) table.OnMessage(Id(i + 1), i, true);
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(table.size(), 100u);
}

TEST_F(PeerTableTest, TheLongestGoneIsForgottenFirst) {
  for (int i = 1; i <= 4; ++i) table.OnMessage(Id(i), i, true);
  for (const int connection : {3, 1, 4, 2}) table.OnClosed(connection);
  EXPECT_EQ(Forgotten(), Ids({3, 1}));
  EXPECT_EQ(table.size(), 2u);
}

TEST_F(PeerTableTest, WhoComesBackInTimeStays) {
  for (int i = 1; i <= 3; ++i) table.OnMessage(Id(i), i, true);
  table.OnClosed(1);
  table.OnClosed(2);
  table.OnMessage(Id(1), 7, true);
  table.OnClosed(3);
  EXPECT_EQ(Forgotten(), Ids());
  table.OnClosed(7);
  EXPECT_EQ(Forgotten(), Ids({2}));
}

TEST_F(PeerTableTest, WhoHasLeftIsToldOnceUnlessBack) {
  for (int i = 1; i <= 3; ++i) table.OnMessage(Id(i), i, true);
  table.OnClosed(2);
  table.OnClosed(3);
  table.OnMessage(Id(2), 7, true);
  table.OnMessage(Id(4), 8, false);
  EXPECT_EQ(table.TakeGone(), (std::vector{Id(3), Id(4)}));
  EXPECT_TRUE(table.TakeGone().empty());
  table.OnClosed(7);
  EXPECT_EQ(table.TakeGone(), std::vector{Id(2)});
}

TEST_F(PeerTableTest, WhoLeavesTwiceIsToldOnce) {
  table.OnMessage(Id(1), 1, true);
  table.OnClosed(1);
  table.OnMessage(Id(1), 2, true);
  table.OnClosed(2);
  EXPECT_EQ(table.TakeGone(), std::vector{Id(1)});
  table.OnMessage(Id(1), 3, true);
  table.OnClosed(3);
  EXPECT_EQ(table.TakeGone(), std::vector{Id(1)});
}

TEST_F(PeerTableTest, WhoComesBackBeforeItsConnectionWasFoundBrokenIsThere) {
  table.OnMessage(Id(1), 1, true);
  table.OnMessage(Id(1), 2, true);
  table.OnClosed(1);
  table.OnMessage(Id(2), 1, true);  // the number, for somebody else
  table.OnClosed(1);
  table.OnMessage(Id(3), 3, false);
  table.OnMessage(Id(4), 3, false);
  EXPECT_EQ(Forgotten(), Ids({2}));
  table.OnClosed(2);
  EXPECT_EQ(Forgotten(), Ids({3}));
}

// What a connection sent may be read after it has closed, and even after another one has its number.
TEST_F(PeerTableTest, WhoIsHeardLateIsGone) {
  for (uint64_t id = 1; id <= 50; ++id) table.OnMessage(Id(id), 5, false);
  EXPECT_EQ(Forgotten().size(), 48u);
  for (uint64_t id = 51; id <= 100; ++id) table.OnMessage(Id(id), 5, true);
  EXPECT_EQ(Forgotten().size(), 49u);
  EXPECT_EQ(table.size(), 3u) << "one is there, two are remembered";
  table.OnMessage(Id(100), 4, false);  // late as well, but it is there by another
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(table.size(), 3u);
  table.OnMessage(Id(98), 5, false);  // heard again: the other one is gone longer
  table.OnClosed(5);
  EXPECT_EQ(Forgotten(), Ids({99}));
}

}  // namespace
}  // namespace sluice::transport
