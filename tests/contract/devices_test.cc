// Workers with several devices each: in whatever order their gradients are pushed, no worker waits forever.
#include <gtest/gtest.h>

#include <cmath>

#include "contract/job.h"
#include "sluice/fit.h"
#include "sluice/models.h"

namespace sluice::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

class WorkersOfTwoDevices : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<Context> Devices(const KVStore& store) {
    return {DeviceOf(store, 0), DeviceOf(store, 1)};
  }
  static std::vector<NDArray> Ones(const KVStore& store) {
    return {Filled(store, {4}, 1, 0), Filled(store, {4}, 1, 1)};
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, WorkersOfTwoDevices, ::testing::Values("dist_sync", "dist_device_sync"),
                         [](const auto& info) { return std::string(info.param); });

// There are two keys, whose sums dist_device_sync keeps on different devices, and a third one. The workers
// push them in opposite orders. A pull that waits for a weight must not block the gradients queued behind it.
TEST_P(WorkersOfTwoDevices, PushInAnyOrder) {
  Job({.type = GetParam(), .workers = 2}).Run([](KVStore& store) {
    const std::vector<Key> names = {"a", "b", "c"};
    for (const Key& name : names) store.Init(name, Filled(store, {4}, 0));
    std::vector<Key> order = names;
    if (store.rank() == 1) std::reverse(order.begin(), order.end());
    std::map<Key, std::vector<NDArray>> values;
    for (const Key& name : order) values[name] = Ones(store);
    // Each key is pushed twice: the second sum is written to the array that the first one is still sent from.
    for (const Key& name : order) {
      for (int round = 0; round < 2; ++round) store.PushPull({name}, {Ones(store)}, {values[name]});
    }
    store.WaitAll(kPatience);
    for (const Key& name : order) {
      for (const NDArray& value : values[name])
        EXPECT_EQ(value.ToVector(), std::vector<float>(4, 4)) << value.context();
    }
  });
}

// Rank 0 gets two of the last three samples, one for each device, and pushes during backward. Rank 1 gets one
// sample, so one device has no gradients, and it pushes after its step, from the first layer on.
TEST_P(WorkersOfTwoDevices, TrainOnAnUnevenLastBatch) {
  const auto images = SyntheticDigits(Subset::kTrain, 3, 19);
  std::vector<std::vector<float>> weights(2);
  Job({.type = GetParam(), .workers = 2}).RunShared([&](std::shared_ptr<KVStore> store) {
    FitOptions options;
    options.contexts = Devices(*store);
    options.batch_size = 4;
    options.num_epochs = 3;
    options.disp_batches = 0;
    nn::Sequential net = nn::Mlp();
    net.CollectParams().Initialize(options.contexts, nullptr, 1);
    const auto rank = static_cast<size_t>(store->rank());
    const FitReport report = Fit(net, images, nullptr, {.learning_rate = 0.1}, std::move(store), options);
    EXPECT_EQ(report.steps, 9);
    weights[rank] = net.CollectParams()["fc3.weight"].list_data().back().ToVector();
  });
  EXPECT_FALSE(weights[0].empty());
  EXPECT_EQ(weights[0], weights[1]);
}

}  // namespace
}  // namespace sluice::testing
