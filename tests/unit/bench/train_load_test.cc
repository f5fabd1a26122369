#include "train_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/access.h"
#include "tensor/devices.h"
#include "unit/tensor/gate.h"

namespace sluice::bench {
namespace {

// As when an error is thrown between two steps: the sanitizer sees what the stream touches afterwards.
TEST(TrainLoad, MayGoWhileAStepIsInFlight) {
  Gate gate;
  {
    TrainLoad load({.network = "mlp", .batch_size = 2});
    load.Run(1);
    const Event behind[] = {gate.event()};
    EnqueueOn(cpu(0), "held", behind, [] {});
    load.Step();
  }
  gate.Open();
  Devices::Default()->DrainAll();
}

TEST(TrainLoad, TakesEveryStockNetwork) {
  for (const std::string_view name : nn::ModelNames()) {
    TrainLoad load({.network = std::string(name), .batch_size = 2});
    load.Run(2);
    EXPECT_GT(load.CountParameters(), 0) << name;
  }
}

// What tools/bench_pytorch.py must have, too.
TEST(TrainLoad, CountsTheParametersOfPyTorchsTwins) {
  const auto count = [](const char* name) {
    return TrainLoad({.network = name, .batch_size = 1}).CountParameters();
  };
  EXPECT_EQ(count("lenet"), 431'080);       // 520 + 25,050 + 400,500 + 5,010
  EXPECT_EQ(count("gluon_lenet"), 60'170);  // 156 + 880 + 48,120 + 10,164 + 850
  EXPECT_EQ(count("resnet20"), 272'474);    // He et al. 2016 with option B
  EXPECT_EQ(count("text_cnn"), 720'110);    // 640,000 + 100 x (64 x (3 + 4 + 5) + 3) + 3,010
  EXPECT_EQ(count("lstm_200"), 323'610);    // 4 x 200 (200 + 200 + 2), and 2,010 of the last layer
  EXPECT_EQ(count("gru_200"), 243'210);     // 3 x ...
  EXPECT_EQ(count("rnn_200"), 82'410);
}

TEST(TrainLoad, TakesTheSameStepsLayerByLayer) {
  for (const char* network : {"lenet", "resnet20"}) {
    TrainLoad together({.network = network, .batch_size = 4});
    TrainLoad one_by_one({.network = network, .batch_size = 4, .layer_by_layer = true});
    together.Run(2);
    one_by_one.Run(2);
    for (const auto& parameter : together.parameters()) {
      const NDArray other = one_by_one.parameters()[parameter->name()].data(cpu(0));
      EXPECT_THAT(other.ToVector<float>(), ::testing::Pointwise(::testing::FloatNear(1e-4f),
                                                                parameter->data(cpu(0)).ToVector<float>()))
          << network << " " << parameter->name();
    }
  }
}

TEST(TrainLoad, TrainsOnBatchesOfALoaderThroughAStore) {
  TrainLoad load({.network = "gluon_lenet", .batch_size = 4, .kv_store = "local", .loader = true});
  load.Run(3);
  EXPECT_EQ(load.loader_waits().size(), 3u);
  EXPECT_EQ(load.num_workers(), 1);
  EXPECT_THAT(load.PushedKeys(), ::testing::Contains("conv1.weight"));
}

}  // namespace
}  // namespace sluice::bench
