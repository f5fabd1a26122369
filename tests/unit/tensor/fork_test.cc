// A child that is forked while arrays live reads those that are at rest, is told why it can do nothing else,
// and ends as other processes do.
#include "base/fork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "sluice/error.h"
#include "sluice/ndarray.h"

namespace sluice {
namespace {

constexpr int kRefused = 40, kWrong = 41;

// Forks a child that calls `body` and ends by exit(its result), and returns its exit code, or -1 if it is not
// gone within a minute.
int CodeOf(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());
  const SteadyClock clock;
  for (const Time end = clock.Now() + 1min; clock.Now() < end; usleep(1000)) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

// Returns kRefused if `call` is refused with what to do instead.
int Refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string why = error.what();
    if (error.code() == ErrorCode::kFailedPrecondition && why.find("forkserver") != std::string::npos)
      return kRefused;
  }
  return kWrong;
}

class ForkedChild : public ::testing::Test {
 protected:
  const NDArray x_ = NDArray::From({1, 2, 3}, {3});
};

TEST_F(ForkedChild, ReadsArraysThatAreAtRest) {
  const NDArray sum = x_ + x_;
  sum.WaitToRead();
  EXPECT_EQ(CodeOf([&] {
              return InForkedChild() && sum.ToVector() == std::vector<float>{2, 4, 6} ? 0 : 1;
            }),
            0);
  EXPECT_FALSE(InForkedChild());
}

TEST_F(ForkedChild, IsToldWhyItComputesNothing) {
  x_.WaitToRead();
  EXPECT_EQ(CodeOf([&] { return Refused([&] { (x_ + 1).WaitToRead(); }); }), kRefused);
  EXPECT_EQ(CodeOf([&] { return Refused([] { NDArray({100}).WaitToRead(); }); }), kRefused);
  EXPECT_EQ(CodeOf([&] { return Refused([] { const ThreadExecutor executor("of a child"); }); }), kRefused);
}

// Another thread allocates and frees arrays all the while, so that a child may find its locks taken.
TEST_F(ForkedChild, GivesArraysBackAndEndsWhateverOthersDo) {
  x_.WaitToRead();
  std::atomic<bool> stops = false;
  std::thread others([&] {
    while (!stops) (NDArray::From({1, 2}, {2}) + 1).WaitToRead();
  });
  for (int i = 0; i < 50; ++i) {
    std::vector<NDArray> arrays;
    for (int j = 0; j < 20; ++j) arrays.push_back(NDArray::Empty({1000}));
    ASSERT_EQ(CodeOf([&] {
                arrays.clear();
                return Refused([&] { (x_ + 1).WaitToRead(); });
              }),
              kRefused)
        << "child " << i;
  }
  stops = true;
  others.join();
}

}  // namespace
}  // namespace sluice
