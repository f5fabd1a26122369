// Layers whose training depends on rank and device: dropout, and the statistics of batch normalisation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "contract/job.h"
#include "sluice/fit.h"
#include "sluice/loss.h"

namespace sluice::testing {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kImages = 24;

std::shared_ptr<const Dataset> Images() {
  static const std::shared_ptr<const Dataset> images = SyntheticDigits(Subset::kTrain, 3, kImages);
  return images;
}

// Trains six steps with 8 images over all workers. Returns by rank the final values of the parameter `name`.
std::vector<std::vector<float>> Train(const JobOptions& job, int devices, nn::Sequential (*make)(),
                                      const std::string& name) {
  std::vector<std::vector<float>> values(static_cast<size_t>(job.workers));
  Job(job).RunShared([&](std::shared_ptr<KVStore> store) {
    FitOptions options;
    options.contexts.clear();
    for (int i = 0; i < devices; ++i) options.contexts.push_back(DeviceOf(*store, i));
    options.batch_size = 8 / job.workers;
    options.num_steps = 6;
    options.seed = 2;
    options.disp_batches = 0;
    nn::Sequential net = make();
    // Each rank starts with other values, but rank 0's are used.
    net.CollectParams().Initialize(options.contexts, nullptr, 1 + static_cast<uint64_t>(store->rank()));
    const auto rank = static_cast<size_t>(store->rank());
    Fit(net, Images(), nullptr, {.learning_rate = 0.1}, std::move(store), options);
    values[rank] = net.CollectParams()[name].list_data().back().ToVector();
  });
  return values;
}

nn::Sequential WithDropout() {
  nn::Sequential net;
  net.Add("hidden", nn::Dense(16)).Add("tanh", nn::Activation::Tanh()).Add("drop", nn::Dropout(0.5));
  net.Add("out", nn::Dense(10));
  return net;
}

TEST(LayersTest, WorkersAndDevicesDropWhatOneWould) {
  const std::vector<float> one = Train({}, 1, WithDropout, "out.weight")[0];
  for (const std::vector<float>& values :
       Train({.type = "dist_sync", .workers = 2}, 1, WithDropout, "out.weight"))
    EXPECT_THAT(values, Pointwise(FloatNear(1e-5f), one));
  EXPECT_THAT(Train({.type = "device"}, 4, WithDropout, "out.weight")[0], Pointwise(FloatNear(1e-5f), one));
}

nn::Sequential WithBatchNorm() {
  nn::Sequential net;
  net.Add("flatten", nn::Flatten()).Add("bn", nn::BatchNorm({.momentum = 0})).Add("out", nn::Dense(10));
  return net;
}

// All workers have the same weights. The statistics are those of the samples that one device of one rank has
// seen: without momentum, of its last batch.
TEST(LayersTest, EachDeviceHoldsTheStatisticsOfItsSamples) {
  const JobOptions job{.type = "dist_sync", .workers = 2};
  const auto gammas = Train(job, 1, WithBatchNorm, "bn.gamma");
  EXPECT_EQ(gammas[0], gammas[1]);
  const auto means = Train(job, 1, WithBatchNorm, "bn.running_mean");
  for (int64_t rank = 0; rank < 2; ++rank) {
    DataLoader loader(Images(), {.batch_size = 4, .seed = 2, .share = {rank, 2}});
    Batch last;
    for (int step = 0; step < 6; ++step) last = *loader.Next();
    const std::vector<float>& found = means[static_cast<size_t>(rank)];
    for (size_t i = 0; i < found.size(); ++i) {
      double mean = 0;
      for (size_t n = 0; n < 4; ++n) mean += last.samples[n * found.size() + i] / 4.0;
      ASSERT_NEAR(found[i], mean, 1e-6) << "rank " << rank << ", pixel " << i;
    }
  }
  EXPECT_NE(means[0], means[1]);
}

}  // namespace
}  // namespace sluice::testing
