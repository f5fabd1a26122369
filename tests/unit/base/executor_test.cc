#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace sluice {
namespace {

TEST(InlineExecutor, RunsBeforePostReturns) {
  InlineExecutor executor;
  bool ran = false;
  executor.Post([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(ThreadExecutor, RunsInTheOrderPostedAndFinishesBeforeItDies) {
  std::vector<int> order;  // touched by the executor's thread only, read after the join
  {
    ThreadExecutor executor("test");
    for (int i = 0; i < 1000; ++i) executor.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(ThreadExecutor, TasksMayPostTasks) {
  std::atomic<int> count = 0;
  {
    ThreadExecutor executor("test");
    std::function<void(int)> spawn = [&](int depth) {
      ++count;
      if (depth > 0) executor.Post([&, depth] { spawn(depth - 1); });
    };
    executor.Post([&] { spawn(20); });
    while (count < 21) std::this_thread::yield();
  }
  EXPECT_EQ(count, 21);
}

TEST(ThreadExecutor, StartsWithItsInitialiser) {
  std::thread::id start, task;
  {
    ThreadExecutor executor("test", [&] { start = std::this_thread::get_id(); });
    executor.Post([&] { task = std::this_thread::get_id(); });
  }
  EXPECT_EQ(start, task);
  EXPECT_NE(start, std::this_thread::get_id());
}

TEST(Guarded, AwaitSeesAChangeAndReportsADeadline) {
  Guarded<int> value(0);
  ThreadExecutor executor("test");
  executor.Post([&] { value.Notify([](int& v) { v = 7; }); });
  EXPECT_EQ(value.Await(
                10s, [](int v) { return v == 7; }, [](int v, bool ready) { return ready ? v : -1; }),
            7);
  EXPECT_FALSE(value.Await(
      1ms, [](int v) { return v == 8; }, [](int, bool ready) { return ready; }));
}

}  // namespace
}  // namespace sluice
