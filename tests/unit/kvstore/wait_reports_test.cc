#include "kvstore/membership/wait_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::membership {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WaitReportsTest : public ::testing::Test {
 protected:
  static Time At(Duration after) { return Time{} + after; }
  // The lines at that time while one operation, begun at the start, waits for worker 1.
  std::vector<std::string> After(Duration after, const std::string& whom = "worker 1") {
    reports_.Add(At(after), whom, Time{}, At(600s), [] { return "pull of key w"; });
    return reports_.Take(At(after));
  }
  WaitReports reports_;
};

TEST_F(WaitReportsTest, TheFirstComesAfterTenSecondsAndTheNextOnesAtGrowingIntervals) {
  std::vector<int> told;
  for (int second = 0; second <= 3000; ++second)
    if (!After(std::chrono::seconds(second)).empty()) told.push_back(second);
  EXPECT_THAT(told, ElementsAre(10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440));
}

TEST_F(WaitReportsTest, ALineNamesWhomWhatForHowLongAndWhenItIsGivenUp) {
  EXPECT_THAT(After(12s),
              ElementsAre("waiting for worker 1, for 12 s so far: pull of key w; gives up after 600 s"));
  reports_.Add(At(30s), "server 0 to answer", At(5s), Time::max(), [] { return "barrier 'b'"; });
  EXPECT_THAT(reports_.Take(At(30s)),
              ElementsAre("waiting for server 0 to answer, for 25 s so far: barrier 'b'"));
}

TEST_F(WaitReportsTest, OperationsThatWaitForTheSameShareALine) {
  for (int i = 0; i < 5; ++i)
    reports_.Add(At(20s), "worker 1", At(std::chrono::seconds(i)), At(std::chrono::seconds(100 - i)),
                 [&] { return "pull of key " + std::to_string(i); });
  EXPECT_THAT(
      reports_.Take(At(20s)),
      ElementsAre(
          "waiting for worker 1, for 20 s so far: pull of key 0 and 4 more operations; gives up after "
          "96 s"));
}

TEST_F(WaitReportsTest, NextSaysWhenALineMayBeDue) {
  reports_.Add(At(4s), "worker 1", At(3s), Time::max(), [] { return "x"; });
  EXPECT_THAT(reports_.Take(At(4s)), IsEmpty());
  EXPECT_EQ(reports_.Next(), At(13s));
  After(13s);
  EXPECT_EQ(reports_.Next(), At(23s));
  EXPECT_THAT(reports_.Take(At(23s)), IsEmpty());
  EXPECT_EQ(reports_.Next(), Time::max());
}

// Who waits for the same again a minute later is heard as the first time.
TEST_F(WaitReportsTest, ALaterWaitBeginsAnew) {
  EXPECT_FALSE(After(10s).empty());
  EXPECT_TRUE(After(15s).empty());
  reports_.Take(At(60s));
  reports_.Add(At(90s), "worker 1", At(80s), Time::max(), [] { return "x"; });
  EXPECT_FALSE(reports_.Take(At(90s)).empty());
}

}  // namespace
}  // namespace sluice::membership
