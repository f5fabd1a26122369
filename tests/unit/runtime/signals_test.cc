#include "runtime/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>

#include "base/guarded.h"

namespace sluice::runtime {
namespace {

TEST(SignalWatcher, HandsSignalsToItsThread) {
  Guarded<std::vector<int>> seen;
  std::thread::id thread;
  {
    SignalWatcher watcher([&](int number) {
      thread = std::this_thread::get_id();
      seen.Notify([&](auto& s) { s.push_back(number); });
    });
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    const bool both = seen.Await(
        10s, [](const auto& s) { return s.size() == 2; }, [](auto&, bool ready) { return ready; });
    ASSERT_TRUE(both);
  }
  EXPECT_NE(thread, std::this_thread::get_id());
  seen.With([](const auto& s) {
    EXPECT_EQ((std::set<int>(s.begin(), s.end())), (std::set<int>{SIGUSR1, SIGTERM}));
  });
}

TEST(SignalWatcher, StopsWithoutASignal) {
  SignalWatcher watcher([](int) { FAIL(); });
}

}  // namespace
}  // namespace sluice::runtime
