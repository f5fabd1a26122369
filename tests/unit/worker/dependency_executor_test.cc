#include "worker/dependency_executor.h"

#include <gmock/gmock.h>

#include <future>

#include "unit/expect_error.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(DependencyExecutor, WorkBeginsWhenItIsReadyAndNotInTheOrderOfIssue) {
  DependencyExecutor executor;
  std::vector<int> order;  // one thread's
  const Event first = Event::Make("first"), second = Event::Make("second");
  const Event one = executor.Enqueue("one", std::array{first, second}, [&] { order.push_back(1); });
  const Event two = executor.Enqueue("two", std::array{second}, [&] { order.push_back(2); });
  const Event three = executor.Enqueue("three", {}, [&] { order.push_back(3); });
  three.Wait(10s);
  second.Complete();
  two.Wait(10s);
  EXPECT_FALSE(one.Done());
  first.Complete();
  one.Wait(10s);
  EXPECT_THAT(order, ElementsAre(3, 2, 1));
}

TEST(DependencyExecutor, AnErrorBeforeOrWithinGoesOn) {
  DependencyExecutor executor;
  const Event input = Event::Make("input");
  bool ran = false;
  const Event skipped = executor.Enqueue("skipped", std::array{input}, [&] { ran = true; });
  const Event follows = executor.Enqueue("follows", std::array{skipped}, [&] { ran = true; });
  input.Complete(std::make_exception_ptr(Error(ErrorCode::kUnavailable, "worker 1 is dead")));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { follows.Wait(10s); }), HasSubstr("worker 1 is dead"));
  EXPECT_FALSE(ran);
  const Event failed = executor.Enqueue("failed", {}, [] { throw Error(ErrorCode::kDataLoss, "no"); });
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { failed.Wait(10s); }), HasSubstr("no"));
}

TEST(DependencyExecutor, MayGoBeforeWhatIsNotReady) {
  auto executor = std::make_unique<DependencyExecutor>();
  const Event input = Event::Make("input");
  std::thread::id ran_on;
  std::promise<void> begun, go_on;
  const Event busy = executor->Enqueue("busy", {}, [&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  // Becomes ready on the executor's own thread, while the executor goes.
  const Event after_busy = executor->Enqueue("after busy", std::array{busy}, [] {});
  const Event late =
      executor->Enqueue("late", std::array{input}, [&] { ran_on = std::this_thread::get_id(); });
  begun.get_future().wait();
  std::thread destroyer([&] { executor = nullptr; });
  go_on.set_value();
  destroyer.join();
  EXPECT_TRUE(busy.Done());
  EXPECT_TRUE(after_busy.Done());
  EXPECT_FALSE(late.Done());
  input.Complete();
  EXPECT_TRUE(late.Succeeded());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace sluice::worker
