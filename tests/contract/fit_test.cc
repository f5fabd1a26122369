// Fit in a job: the workers wait for each other, and for rank 0 where it does more than they.
#include "sluice/fit.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "contract/job.h"
#include "sluice/dataset.h"
#include "unit/expect_error.h"

namespace sluice::testing {
namespace {

constexpr auto kOperations = std::chrono::seconds(4);  // that a value may be late
constexpr auto kEvaluation = std::chrono::seconds(5);  // that rank 0 takes

// As an evaluation that uses the processor elsewhere.
void TakeTime() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, kEvaluation, [] { return false; });
}

FitReport FitFor(int64_t num_epochs, const std::shared_ptr<KVStore>& store, FitOptions options) {
  nn::Sequential net;
  net.Add("fc", nn::Dense(2));
  options.contexts = {DeviceOf(*store)};
  net.CollectParams().Initialize(options.contexts);
  const auto data =
      std::make_shared<ArrayDataset>(Shape{3}, std::vector<float>(12), std::vector<int32_t>{0, 1, 0, 1});
  options.batch_size = 2;
  options.num_epochs = num_epochs;
  return Fit(net, data, data, {.learning_rate = 0.1}, store, options);
}

TEST(FitInAJob, TheOthersWaitForAnEpochsCallbacksLongerThanForAValue) {
  Job({.type = "dist_sync", .workers = 2, .operation_timeout = kOperations}).RunShared([](const auto& store) {
    const auto slow = AfterEpoch([](const FitStatus& status) {
      if (status.next.epoch == 1) TakeTime();
    });
    EXPECT_EQ(FitFor(3, store, {.callbacks = {slow}}).epochs, 3);
  });
}

TEST(FitInAJob, NotForEver) {
  Job({.type = "dist_sync", .workers = 2}).RunShared([](const auto& store) {
    const auto slow = AfterEpoch([](const FitStatus&) { TakeTime(); });
    const std::string why = ErrorOf(ErrorCode::kDeadlineExceeded, [&] {
      FitFor(1, store, {.callbacks = {slow}, .leader_timeout = std::chrono::seconds(1)});
    });
    EXPECT_NE(why.find(store->rank() == 0 ? "worker 1" : "worker 0"), std::string::npos) << why;
  });
}

}  // namespace
}  // namespace sluice::testing
