// Tests transport/zmq/poller.h on pipes: what is ready, wake-ups from other threads, and the alarm.
#include "transport/zmq/poller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace sluice::transport {
namespace {

// The tags of the inputs that could be read.
std::vector<int> WaitOnce(Poller& poller) {
  std::vector<int> tags;
  poller.Report(poller.Sleep(), [&](void* tag) { tags.push_back(*static_cast<int*>(tag)); });
  return tags;
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  void Write() const { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  void Read() const {
    char c;
    EXPECT_EQ(read(ends[0], &c, 1), 1);
  }
  int ends[2];
};

Time In(Duration duration) {
  return SteadyClock().Now() + duration;
}

TEST(Poller, TellsWhatCanBeReadUntilItIsRead) {
  Poller poller;
  Pipe a, b;
  int tag_a = 1, tag_b = 2;
  poller.Watch({{a.ends[0], &tag_a}, {b.ends[0], &tag_b}});
  b.Write();
  EXPECT_EQ(WaitOnce(poller), std::vector{2});
  EXPECT_EQ(WaitOnce(poller), std::vector{2});
  b.Read();
  a.Write();
  EXPECT_EQ(WaitOnce(poller), std::vector{1});
}

TEST(Poller, WhatIsForgottenMayCloseAndItsNumberBeWatchedAgain) {
  Poller poller;
  Pipe kept;
  int old = 1, fresh = 2, other = 3;
  int number = -1;
  {
    Pipe gone;
    number = gone.ends[0];
    poller.Watch({{gone.ends[0], &old}, {kept.ends[0], &old}});
    gone.Write();
    kept.Write();
    poller.UnwatchAll();
  }
  poller.Watch({{kept.ends[0], &fresh}});
  EXPECT_EQ(WaitOnce(poller), std::vector{2});
  kept.Read();
  const Pipe next;
  EXPECT_EQ(next.ends[0], number);
  poller.Watch({{next.ends[0], &other}});
  next.Write();
  EXPECT_EQ(WaitOnce(poller), std::vector{3});
}

TEST(Poller, AWakeUpBeforeOrDuringTheWaitEndsIt) {
  Poller poller;
  poller.Wake();
  EXPECT_TRUE(WaitOnce(poller).empty());
  for (int i = 0; i < 1000; ++i) {
    std::thread other([&] { poller.Wake(); });
    EXPECT_TRUE(WaitOnce(poller).empty());
    other.join();
  }
}

TEST(Poller, TheAlarmRingsAtTheEarliestTimeSet) {
  Poller poller;
  poller.SetAlarm(In(60min));
  const Time when = In(20ms);
  poller.SetAlarm(when);
  poller.SetAlarm(In(120min));
  EXPECT_TRUE(WaitOnce(poller).empty());
  EXPECT_GE(SteadyClock().Now(), when);
  poller.SetAlarm(In(-5s));  // has passed
  EXPECT_TRUE(WaitOnce(poller).empty());
  poller.SetAlarm(Time::min());
  EXPECT_TRUE(WaitOnce(poller).empty());
}

// What rang is over: the next wait is for something else.
TEST(Poller, AnAlarmRingsOnce) {
  Poller poller;
  Pipe pipe;
  int tag = 1;
  poller.Watch({{pipe.ends[0], &tag}});
  poller.SetAlarm(In(1ms));
  EXPECT_TRUE(WaitOnce(poller).empty());
  std::thread later([&] { pipe.Write(); });
  EXPECT_EQ(WaitOnce(poller), std::vector{1});
  later.join();
}

}  // namespace
}  // namespace sluice::transport
