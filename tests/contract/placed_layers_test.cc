// Fit on a network whose layers lie on several devices, in a pipeline and without one: every store trains it
// as it trains the network on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "contract/job.h"
#include "sluice/fit.h"
#include "sluice/loss.h"
#include "sluice/models.h"

namespace sluice::testing {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kBatch = 12, kSteps = 30;

std::shared_ptr<const Dataset> Texts() {
  static const std::shared_ptr<const Dataset> texts = SyntheticText(Subset::kTrain, 3, 64);
  return texts;
}

nn::Sequential Layers() {
  nn::Sequential net;
  net.Add("embed", nn::Embedding(kSyntheticVocabulary, 6))
      .Add("lstm0", nn::Lstm(8))
      .Add("drop", nn::Dropout(0.5))
      .Add("gru1", nn::Gru(7))
      .Add("last", nn::SequenceLast())
      .Add("decode", nn::Dense(Texts()->num_classes()));
  return net;
}

using Weights = std::map<std::string, std::vector<float>>;

struct Way {
  JobOptions job;
  int devices = 1;  // each worker's
  int64_t micro_batches = 0;
  double clip_global_norm = 0;
};

// Trains kSteps steps with kBatch texts over all workers. Returns the final weights, by rank.
std::vector<Weights> Train(const Way& way) {
  std::vector<Weights> weights(static_cast<size_t>(way.job.workers));
  Job(way.job).RunShared([&](std::shared_ptr<KVStore> store) {
    nn::Placement placement;
    int next = 0;
    for (const char* group : {"embed", "lstm0", "gru1", "decode"})
      placement.Set(group, DeviceOf(*store, next++ * way.devices / 4));
    nn::PlacedSequential net(Layers(), placement);
    // Each rank starts with other values, but rank 0's are used.
    net.Initialize(nullptr, 1 + static_cast<uint64_t>(store->rank()));
    const FitOptions options{.micro_batches = way.micro_batches,
                             .batch_size = kBatch / way.job.workers,
                             .num_steps = kSteps,
                             .seed = 2,
                             .clip_global_norm = way.clip_global_norm,
                             .disp_batches = 0};
    Weights& mine = weights[static_cast<size_t>(store->rank())];
    Fit(net, Texts(), Texts(), {.learning_rate = 0.3, .momentum = 0.9}, std::move(store), options);
    for (const auto& parameter : net.CollectParams())
      mine[parameter->name()] = parameter->list_data().front().ToVector();
  });
  return weights;
}

void ExpectEqual(const Way& way, const Weights& one) {
  SCOPED_TRACE(way.job.type + " with " + std::to_string(way.job.workers) + " workers of " +
               std::to_string(way.devices) + " devices, micro-batches: " + std::to_string(way.micro_batches));
  for (const Weights& found : Train(way)) {
    ASSERT_EQ(found.size(), one.size());
    for (const auto& [name, values] : found)
      EXPECT_THAT(values, Pointwise(FloatNear(1e-5f), one.at(name))) << name;
  }
}

TEST(PlacedLayersTest, TrainAsOnOneDevice) {
  const Weights one = Train({})[0];
  for (const char* type : {"local", "device"}) {
    for (const int devices : {1, 2, 4})
      for (const int64_t micro_batches : {0, 5}) ExpectEqual({{.type = type}, devices, micro_batches}, one);
  }
}

TEST(PlacedLayersTest, SeveralWorkersTrainAsOneWithTheirBatchesTogether) {
  const Weights one = Train({})[0];
  ExpectEqual({{.type = "dist_sync", .workers = 2}, 2, 3}, one);
  ExpectEqual({{.type = "dist_sync", .workers = 3}, 4, 4}, one);
  ExpectEqual({{.type = "dist_device_sync", .workers = 2}, 2, 0}, one);
}

TEST(PlacedLayersTest, ClippingTakesTheNormOfAllDevices) {
  const Weights one = Train({.clip_global_norm = 0.05})[0];
  ExpectEqual({{.type = "local"}, 4, 5, 0.05}, one);
  ExpectEqual({{.type = "dist_sync", .workers = 2}, 2, 3, 0.05}, one);
}

}  // namespace
}  // namespace sluice::testing
