#include "transport/zmq/ingress_limiter.h"

#include <gtest/gtest.h>

#include <map>

namespace sluice::transport {
namespace {

constexpr uint64_t kKiB = 1 << 10;

class IngressLimiterTest : public ::testing::Test {
 protected:
  // The connections cut by a look at `now`, at which so much had arrived from each.
  std::map<int, uint64_t> Look(Time now, const std::map<int, uint64_t>& received, bool all_read = true) {
    std::map<int, uint64_t> cut;
    for (const auto& excess : limiter.FindExcess(now, all_read, [&](int id) { return received.at(id); }))
      cut[excess.connection] = excess.bytes;
    return cut;
  }
  static Time At(Duration d) { return Time() + d; }

  const IngressLimits limits{.max_partial = 100 * kKiB,
                             .max_unread = 1000 * kKiB,
                             .max_unauthenticated = 300 * kKiB,
                             .heartbeat_bytes = 10,
                             .heartbeat_interval = 1s};
  IngressLimiter limiter{limits};
};

TEST_F(IngressLimiterTest, WhatBecomesMessagesIsNoExcessHoweverMuchItIs) {
  limiter.OnAccepted(3, At(0s));
  uint64_t received = 0;
  for (int i = 0; i < 1000; ++i) {
    limiter.OnMessage(3, 90 * kKiB);
    received += 90 * kKiB;
    ASSERT_TRUE(Look(At(0s), {{3, received + 99 * kKiB}}).empty()) << "look " << i;
  }
}

TEST_F(IngressLimiterTest, AMessageWithoutEndIsCutOnceEverythingWholeIsRead) {
  limiter.OnAccepted(3, At(0s));
  limiter.OnMessage(3, 1);
  EXPECT_TRUE(Look(At(0s), {{3, 99 * kKiB}}).empty());
  EXPECT_FALSE(limiter.near_limit());
  EXPECT_TRUE(Look(At(0s), {{3, 101 * kKiB}}).empty()) << "judged before it could be read";
  EXPECT_TRUE(limiter.near_limit());
  EXPECT_TRUE(Look(At(0s), {{3, 101 * kKiB}}, false).empty()) << "it may wait to be read";
  const auto cut = Look(At(0s), {{3, 500 * kKiB}});
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut.at(3), 101 * kKiB - 1 - limits.heartbeat_bytes);
  EXPECT_TRUE(Look(At(0s), {}).empty()) << "cut twice";
}

TEST_F(IngressLimiterTest, WholeMessagesThatNobodyReadsAreBoundedToo) {
  limiter.OnAccepted(3, At(0s));
  limiter.OnMessage(3, 1);
  Look(At(0s), {{3, 1001 * kKiB}}, false);
  EXPECT_EQ(Look(At(0s), {{3, 1001 * kKiB}}, false).count(3), 1u);
}

TEST_F(IngressLimiterTest, UnauthenticatedPeersShareOneBoundAndTheGreediestGoesFirst) {
  for (int id = 1; id <= 5; ++id) limiter.OnAccepted(id, At(0s));
  limiter.OnAccepted(6, At(0s));
  limiter.OnMessage(6, 1);  // it has brought a message
  const std::map<int, uint64_t> received = {{1, 80 * kKiB}, {2, 70 * kKiB}, {3, 90 * kKiB},
                                            {4, 60 * kKiB}, {5, 95 * kKiB}, {6, 99 * kKiB}};
  Look(At(0s), received);
  const auto cut = Look(At(0s), received);  // 395 KiB without a message: without the largest 300
  EXPECT_EQ(cut.size(), 1u);
  EXPECT_TRUE(cut.contains(5));
}

TEST_F(IngressLimiterTest, HeartbeatsAreForgiven) {
  limiter.OnAccepted(3, At(0s));
  limiter.OnMessage(3, 1);
  const uint64_t beats = 20'000;
  Look(At(20'000s), {{3, beats * limits.heartbeat_bytes}});
  EXPECT_TRUE(Look(At(20'000s), {{3, 0}}).empty());
  Look(At(20'000s), {{3, (beats + 20) * limits.heartbeat_bytes + 100 * kKiB}});
  EXPECT_EQ(Look(At(20'000s), {{3, 0}}).count(3), 1u);
}

TEST_F(IngressLimiterTest, ANumberThatComesAgainIsAnotherConnection) {
  limiter.OnAccepted(3, At(0s));
  limiter.OnMessage(3, 1);
  Look(At(0s), {{3, 101 * kKiB}});
  limiter.OnClosed(3);
  EXPECT_EQ(limiter.size(), 0u);
  limiter.OnMessage(3, 50 * kKiB);  // came by the old one
  limiter.OnAccepted(3, At(0s));
  EXPECT_TRUE(Look(At(0s), {{3, 0}}).empty());
}

}  // namespace
}  // namespace sluice::transport
