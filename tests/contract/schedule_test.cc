// A learning-rate schedule counts steps of all workers together. In an async store with n workers a step is n
// updates, so the learning rate falls after the same share of the data as in a sync store.
#include <gtest/gtest.h>

#include "contract/job.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

const Key kKey = std::string("weight");
const Shape kShape = {300};

class Schedule : public ::testing::TestWithParam<std::string> {
 protected:
  int workers() const { return StoreType::Parse(GetParam()).distributed ? 3 : 1; }
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
};

TEST_P(Schedule, CountsStepsOfAllWorkersTogether) {
  Job({.type = GetParam(), .workers = workers(), .bigarray_bound = 100}).Run([&](KVStore& kv) {
    OptimizerConfig config{.learning_rate = 1};
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = 0.5;
    config.schedule.steps = {2, 3};
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer(config);
    kv.Barrier();
    double expected = 0;
    for (const double rate : {1.0, 1.0, 0.5, 0.25, 0.25}) {
      // The pushes of a step add up to 6 with one worker or three: 1, 2 and 3 at one rate move as far as 6.
      kv.Push(kKey, Filled(kv, kShape, workers() == 1 ? 6 : 1 + kv.rank()));
      kv.WaitAll();
      kv.Barrier();
      expected -= 6 * rate;
      NDArray weight = Filled(kv, kShape, 0);
      kv.PullLatest({kKey}, {{weight}});
      EXPECT_EQ(weight.ToVector(), std::vector<float>(300, static_cast<float>(expected)));
      kv.Barrier();
    }
  });
}

// Adam's bias corrections count updates, not steps, since each update changes the moments.
TEST_P(Schedule, LeavesAdamsCorrectionsToTheUpdates) {
  Job({.type = GetParam(), .workers = workers()}).Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAdam, .learning_rate = 0.25});
    kv.Barrier();
    kv.Push(kKey, Filled(kv, kShape, 2));
    kv.WaitAll();
    kv.Barrier();
    NDArray weight = Filled(kv, kShape, 0);
    kv.PullLatest({kKey}, {{weight}});
    // With equal gradients the corrected moments are the gradient and its square, so each update moves by the
    // full learning rate.
    const int updates = IsAsync() ? workers() : 1;
    for (const float w : weight.ToVector()) ASSERT_NEAR(w, -0.25 * updates, 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, Schedule, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
