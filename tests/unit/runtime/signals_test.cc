// Tests runtime/signals.h: which signals a process that plays a role takes, and that the program's own
// handlers and its children have theirs. Signals are raised in forked children.
#include "runtime/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <vector>

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

struct sigaction ActionOf(int number) {
  struct sigaction action {};
  EXPECT_EQ(sigaction(number, nullptr, &action), 0);
  return action;
}

void Handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ASSERT_EQ(sigaction(number, &action, nullptr), 0);
}

volatile sig_atomic_t own = 0;

// Counts what a watcher is told, and waits for it.
class Heard {
 public:
  void Add(int number) {
    seen_.Notify([&](auto& s) { s.push_back(number); });
  }
  bool Await(const std::vector<int>& numbers) {
    return seen_.Await(
        10s, [&](const auto& s) { return s.size() >= numbers.size(); },
        [&](auto& s, bool ready) { return ready && s == numbers; });
  }
  size_t size() {
    return seen_.With([](const auto& s) { return s.size(); });
  }

 private:
  Guarded<std::vector<int>> seen_;
};

TEST(SignalWatcher, BlocksNoSignalThatAChildWouldInherit) {
  sigset_t before, after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  SignalWatcher watcher([](int) {});
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int number = 1; number < 32; ++number)
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

TEST(SignalWatcher, BringsBackWhatWasThere) {
  {
    SignalWatcher watcher([](int) {});
    EXPECT_NE(ActionOf(SIGTERM).sa_handler, SIG_DFL);
    EXPECT_NE(ActionOf(SIGTERM).sa_flags & SA_RESTART, 0) << "calls of the program would be interrupted";
  }
  for (const int number : {SIGINT, SIGTERM}) EXPECT_EQ(ActionOf(number).sa_handler, SIG_DFL);
  kill(getpid(), SIGUSR1);  // ends nothing, though nobody hears it
}

TEST(SignalWatcher, LeavesAHandlerOfTheProgramAndWhatIsIgnored) {
  Handle(SIGTERM, [](int) { own = 1; });
  Handle(SIGINT, SIG_IGN);
  {
    Heard heard;
    SignalWatcher watcher([&](int number) { heard.Add(number); });
    raise(SIGTERM);  // in this thread, so that the handler has run when it returns
    kill(getpid(), SIGINT);
    kill(getpid(), SIGUSR1);
    EXPECT_TRUE(heard.Await({SIGUSR1}));
    EXPECT_EQ(own, 1);
  }
  EXPECT_EQ(ActionOf(SIGINT).sa_handler, SIG_IGN);
  Handle(SIGINT, SIG_DFL);
  Handle(SIGTERM, SIG_DFL);
}

TEST(SignalWatcher, AHandlerThatComesLaterTakesItsPlaceAndStays) {
  own = 0;
  {
    SignalWatcher watcher([](int) { FAIL(); });
    Handle(SIGTERM, [](int) { own = 1; });
    raise(SIGTERM);
    EXPECT_EQ(own, 1);
  }
  EXPECT_NE(ActionOf(SIGTERM).sa_handler, SIG_DFL);
  Handle(SIGTERM, SIG_DFL);
}

TEST(SignalWatcher, OfAProcessThatPlaysARoleHandlersAndBlockedSignalsAreTaken) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  Handle(SIGTERM, [](int) { FAIL(); });
  kill(getpid(), SIGUSR1);  // waits, as launch.py's question does
  {
    Heard heard;
    const HeldSignals held(HeldSignals::Programs::kReplace);
    SignalWatcher watcher([&](int number) { heard.Add(number); });
    EXPECT_TRUE(heard.Await({SIGUSR1}));
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(heard.Await({SIGUSR1, SIGTERM}));
  }
  Handle(SIGTERM, SIG_DFL);
}

TEST(SignalWatcher, AChildThatIsForkedEndsByTheSignalAndItsParentHearsNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer runs no handler in a child that was forked";
#endif
  Heard heard;
  SignalWatcher watcher([&](int number) { heard.Add(number); });
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(heard.Await({SIGUSR1}));
}

TEST(SignalWatcher, AGraceLastsUntilAnotherSignal) {
  Heard heard, waits;
  SignalWatcher watcher([&](int number) { heard.Add(number); }, std::chrono::hours(1),
                        [&](int number) { waits.Add(number); });
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(waits.Await({SIGTERM}));
  kill(getpid(), SIGTERM);  // the same request, which has come another way
  kill(getpid(), SIGUSR1);
  EXPECT_TRUE(heard.Await({SIGUSR1}));
  kill(getpid(), SIGINT);
  EXPECT_TRUE(heard.Await({SIGUSR1, SIGINT}));
}

TEST(SignalWatcher, AGraceEnds) {
  Heard heard, waits;
  SignalWatcher watcher([&](int number) { heard.Add(number); }, 10ms, [&](int number) { waits.Add(number); });
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(heard.Await({SIGTERM}));
  EXPECT_EQ(waits.size(), 1u);
}

TEST(SignalWatcher, IsWokenWithoutASignal) {
  Heard heard;
  SignalWatcher watcher([&](int number) { heard.Add(number); });
  watcher.Wake();
  EXPECT_TRUE(heard.Await({0}));
}

TEST(StopRequest, OfTheSameKindWithinTwoSecondsIsTheSame) {
  const Time start = Time() + 100s;
  const StopRequest request{SIGTERM, start};
  EXPECT_TRUE(request.IsSame(SIGTERM, start + 1999ms));
  EXPECT_FALSE(request.IsSame(SIGTERM, start + 2s));
  EXPECT_FALSE(request.IsSame(SIGINT, start));
  EXPECT_FALSE(StopRequest().IsSame(SIGTERM, start));
}

}  // namespace
}  // namespace sluice::runtime
