// A schedule counts steps of all workers together, in every mode: n workers of an async store make n updates
// of a step, and the learning rate falls after the same share of the data as in a sync store.
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
      // A step's pushes add up to 6, whoever's they are: 1 + 2 + 3 at one rate are what 6 at once are.
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

// What a state has seen is updates, not steps: Adam's corrections are of the moments' own age.
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
    // Corrected moments of equal gradients are the gradient and its square: every update is a whole step.
    const int updates = IsAsync() ? workers() : 1;
    for (const float w : weight.ToVector()) ASSERT_NEAR(w, -0.25 * updates, 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, Schedule,
                         ::testing::Values("local", "device", "dist_sync", "dist_device_sync", "dist_async",
                                           "dist_device_async"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
