#include "base/quick_mutex.h"

#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(QuickMutexTest, OneThreadAtATime) {
  constexpr int kThreads = 4, kTimes = 20000;
  QuickMutex mutex;
  int64_t count = 0, inside = 0;
  bool together = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kTimes; ++k) {
        const std::lock_guard lock(mutex);
        together = together || ++inside != 1;
        ++count;
        if (k % 1000 == 0) std::this_thread::yield();  // with the lock: others have to wait
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kTimes);
  EXPECT_FALSE(together);
}

TEST(QuickMutexTest, WhoeverWaitsGetsItsTurn) {
  QuickMutex mutex;
  int turns = 0;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex);
    std::latch here(4);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        here.count_down();
        const std::lock_guard lock(mutex);
        ++turns;
      });
    }
    here.wait();
    EXPECT_EQ(turns, 0);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, 4);
}

}  // namespace
}  // namespace sluice
