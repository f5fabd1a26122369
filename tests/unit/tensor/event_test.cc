// Tests Event: it completes once, with a value or an error, and wakes each waiter and callback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/pool_allocator.h"
#include "tensor/stream.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::exception_ptr FailureOf(const std::string& why) {
  return std::make_exception_ptr(Error(ErrorCode::kDataLoss, why));
}

TEST(EventTest, ADefaultEventHasHappened) {
  const Event event;
  EXPECT_TRUE(event.Done());
  EXPECT_TRUE(event.Succeeded());
  event.Wait(0s);
}

TEST(EventTest, WaitingEndsAtTheDeadlineAndNamesWhatItWaitedFor) {
  const Event event = Event::Make("the gradient of conv1");
  EXPECT_FALSE(event.Done());
  EXPECT_EQ(event.error(), nullptr);
  for (const Duration timeout : {Duration(0s), Duration(1ms)}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { event.Wait(timeout); }),
                HasSubstr("for the gradient of conv1"));
    ErrorOf(ErrorCode::kDeadlineExceeded, [&] { event.WaitQuietly(timeout); });
  }
}

TEST(EventTest, EveryWaiterGetsTheError) {
  const Event event = Event::Make("it");
  std::atomic<int> told = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      ErrorOf(ErrorCode::kDataLoss, [&] { event.Wait(1min); });
      ++told;
    });
  }
  event.Complete(FailureOf("it broke"));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told, 4);
  EXPECT_TRUE(event.Done());
  EXPECT_FALSE(event.Succeeded());
  event.WaitQuietly(0s);
}

TEST(EventTest, AnAnnouncedErrorIsKnownBeforeTheEventIsDone) {
  const Event event = Event::Make("it");
  EXPECT_EQ(event.KnownError(), nullptr);
  event.Announce(FailureOf("it broke"));
  EXPECT_FALSE(event.Done());
  EXPECT_EQ(event.error(), nullptr);
  EXPECT_NE(event.KnownError(), nullptr);
  EXPECT_EQ(event.Quietly().KnownError(), nullptr);
  event.Complete(FailureOf("told later"));
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { event.Wait(0s); }), HasSubstr("it broke"));
  EXPECT_NE(event.KnownError(), nullptr);
  EXPECT_EQ(Event().KnownError(), nullptr);
  Event().Announce(FailureOf("nobody hears it"));
}

TEST(EventTest, CallbacksRunOnceWithTheErrorBeforeAndAfter) {
  const Event good = Event::Make("good"), bad = Event::Make("bad");
  std::vector<std::string> seen;
  const auto note = [&](std::string name) {
    return [&seen, name = std::move(name)](const std::exception_ptr& error) {
      seen.push_back(name + (error ? " failed" : " done"));
    };
  };
  good.OnDone(note("first"));
  good.OnDone(note("second"));
  bad.OnDone(note("third"));
  EXPECT_TRUE(seen.empty());
  good.Complete();
  bad.Complete(FailureOf("no"));
  good.OnDone(note("late"));
  bad.OnDone(note("late"));
  Event().OnDone(note("never made"));
  EXPECT_THAT(seen, ::testing::ElementsAre("first done", "second done", "third failed", "late done",
                                           "late failed", "never made done"));
}

TEST(EventTest, ManyCallbacksRunInOrderWhateverMemoryTheyLieIn) {
  const auto pool = std::make_shared<PoolAllocator>();
  for (const Event& event : {Event::Make("it"), Event::Make("it", nullptr, pool)}) {
    std::vector<std::string> seen;
    for (int i = 0; i < 5; ++i) {
      (i % 2 == 0 ? event : event.Quietly()).OnDone([&seen, i](const std::exception_ptr& error) {
        seen.push_back(std::to_string(i) + (error ? " failed" : " done"));
      });
    }
    event.Complete(FailureOf("no"));
    EXPECT_THAT(seen, ::testing::ElementsAre("0 failed", "1 done", "2 failed", "3 done", "4 failed"));
  }
}

TEST(EventTest, QuietlyTellsTheEndAndKeepsTheErrorToItself) {
  const Event event = Event::Make("it"), quiet = event.Quietly();
  bool failed = true;
  quiet.OnDone([&](const std::exception_ptr& error) { failed = error != nullptr; });
  EXPECT_FALSE(quiet.Done());
  EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { quiet.Wait(0s); }), HasSubstr("it"));
  event.Complete(FailureOf("no"));
  EXPECT_TRUE(quiet.Done());
  EXPECT_TRUE(quiet.Succeeded());
  EXPECT_FALSE(failed);
  quiet.Wait(0s);
  ErrorOf(ErrorCode::kDataLoss, [&] { event.Wait(0s); });
}

TEST(EventTest, WakesAWaiterWheneverItComes) {
  for (int round = 0; round < 2000; ++round) {
    const Event event = Event::Make("round");
    std::thread waiter([&] { event.Wait(1min); });
    event.Complete();
    waiter.join();
  }
}

TEST(EventDeathTest, CompletingTwiceIsABug) {
  const Event event = Event::Make("it");
  event.Complete();
  EXPECT_DEATH(event.Complete(), "it completed twice");
}

}  // namespace
}  // namespace sluice
