#include "transport/zmq/guests.h"

#include <gtest/gtest.h>

namespace sluice::transport {
namespace {

PeerId Id(uint64_t value) {
  return PeerId{value};
}

class GuestsTest : public ::testing::Test {
 protected:
  // Everyone who is forgotten now, in that order.
  std::vector<uint64_t> Forgotten() {
    std::vector<uint64_t> ids;
    while (const auto id = guests.Forget()) ids.push_back(id->value);
    return ids;
  }
  Guests guests{2};
};

using Ids = std::vector<uint64_t>;

TEST_F(GuestsTest, WhoIsThereIsNeverForgotten) {
  for (int i = 0; i < 100; ++i) guests.OnHeard(Id(i + 1), i, true);
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(guests.size(), 100u);
}

TEST_F(GuestsTest, TheLongestGoneIsForgottenFirst) {
  for (int i = 1; i <= 4; ++i) guests.OnHeard(Id(i), i, true);
  for (const int connection : {3, 1, 4, 2}) guests.OnClosed(connection);
  EXPECT_EQ(Forgotten(), Ids({3, 1}));
  EXPECT_EQ(guests.size(), 2u);
}

TEST_F(GuestsTest, WhoComesBackInTimeStays) {
  for (int i = 1; i <= 3; ++i) guests.OnHeard(Id(i), i, true);
  guests.OnClosed(1);
  guests.OnClosed(2);
  guests.OnHeard(Id(1), 7, true);
  guests.OnClosed(3);
  EXPECT_EQ(Forgotten(), Ids());
  guests.OnClosed(7);
  EXPECT_EQ(Forgotten(), Ids({2}));
}

TEST_F(GuestsTest, WhoHasLeftIsToldOnceUnlessBack) {
  for (int i = 1; i <= 3; ++i) guests.OnHeard(Id(i), i, true);
  guests.OnClosed(2);
  guests.OnClosed(3);
  guests.OnHeard(Id(2), 7, true);
  guests.OnHeard(Id(4), 8, false);
  EXPECT_EQ(guests.TakeLeft(), (std::vector{Id(3), Id(4)}));
  EXPECT_TRUE(guests.TakeLeft().empty());
  guests.OnClosed(7);
  EXPECT_EQ(guests.TakeLeft(), std::vector{Id(2)});
}

TEST_F(GuestsTest, WhoComesBackBeforeItsConnectionWasFoundBrokenIsThere) {
  guests.OnHeard(Id(1), 1, true);
  guests.OnHeard(Id(1), 2, true);
  guests.OnClosed(1);
  guests.OnHeard(Id(2), 1, true);  // the number, for somebody else
  guests.OnClosed(1);
  guests.OnHeard(Id(3), 3, false);
  guests.OnHeard(Id(4), 3, false);
  EXPECT_EQ(Forgotten(), Ids({2}));
  guests.OnClosed(2);
  EXPECT_EQ(Forgotten(), Ids({3}));
}

// What a connection sent may be read after it has closed, and even after another one has its number.
TEST_F(GuestsTest, WhoIsHeardLateIsGone) {
  for (uint64_t id = 1; id <= 50; ++id) guests.OnHeard(Id(id), 5, false);
  EXPECT_EQ(Forgotten().size(), 48u);
  for (uint64_t id = 51; id <= 100; ++id) guests.OnHeard(Id(id), 5, true);
  EXPECT_EQ(Forgotten().size(), 49u);
  EXPECT_EQ(guests.size(), 3u) << "one is there, two are remembered";
  guests.OnHeard(Id(100), 4, false);  // late as well, but it is there by another
  EXPECT_EQ(Forgotten(), Ids());
  EXPECT_EQ(guests.size(), 3u);
  guests.OnHeard(Id(98), 5, false);  // heard again: the other one is gone longer
  guests.OnClosed(5);
  EXPECT_EQ(Forgotten(), Ids({99}));
}

}  // namespace
}  // namespace sluice::transport
