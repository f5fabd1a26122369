#include "runtime/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace sluice::runtime {
namespace {

long PagesTaken() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// What a process receives in a round of a small network, in parts of 1 MiB.
void Round() {
  std::vector<void*> messages;
  for (int i = 0; i < 6; ++i) {
    constexpr size_t kBytes = 1 << 20;
    messages.push_back(std::malloc(kBytes));
    std::memset(messages.back(), i, kBytes);
  }
  for (void* message : messages) std::free(message);
}

TEST(ProcessTest, MessagesTakeNoNewPagesOnceThereWereSome) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has a malloc of its own";
#endif
  KeepMessageMemory();
  std::thread([] {  // ZeroMQ's, whose part of the heap is not the main thread's
    Round();
    const long before = PagesTaken();
    for (int round = 0; round < 20; ++round) Round();
    EXPECT_LT(PagesTaken() - before, 200);  // there are 20 x 1536
  })
      .join();
}

// Fatal to the process when each of them initialises glibc's malloc (with another malloc before it: TSan).
TEST(ProcessTest, SeveralWorkersOfAProcessMayKeepItAtOnce) {
  constexpr int kThreads = 8;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      KeepMessageMemory();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::runtime
