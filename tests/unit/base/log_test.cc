#include "base/log.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(LogLimiter, LetsAFewThroughEachIntervalAndCountsTheRest) {
  LogLimiter limiter(2, 1s);
  const Time start = Time() + 100s;
  uint64_t swallowed = 0;
  EXPECT_TRUE(limiter.Allow(start, &swallowed));
  EXPECT_TRUE(limiter.Allow(start, &swallowed));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(limiter.Allow(start + 500ms, &swallowed));
  EXPECT_TRUE(limiter.Allow(start + 1s, &swallowed));
  EXPECT_EQ(swallowed, 5u);
  EXPECT_TRUE(limiter.Allow(start + 1s, &swallowed));
  EXPECT_EQ(swallowed, 0u);
}

}  // namespace
}  // namespace sluice
