// The residuals that compression keeps at the workers, and rounded weights on their way back: with uneven
// batches, with empty batches, after failed pushes, and with pulls in different types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "contract/weight_key.h"
#include "tensor/access.h"

namespace sluice::testing {
namespace {

// Two pulls of one key wait for weights in different types. Neither replaces the other; both end.
TEST(WhatCompressionKeeps, PullsInTwoFormsDoNotWaitForEachOther) {
  Job({.type = "dist_sync", .workers = 2}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    kv.Push(kKey, Filled(kv, kShape, 1));
    if (kv.rank() == 1) kv.Barrier({0, 1});  // rank 1's push comes late
    NDArray values = Filled(kv, kShape, 0.0001), out = Filled(kv, kShape, 77);
    kv.PushPull(kKey, values, nullptr, {.uncompressed = true});
    kv.Pull(kKey, &out);
    if (kv.rank() == 0) kv.Barrier({0, 1});
    EXPECT_THAT(values.ToVector(), ::testing::Each(2.0002f));
    EXPECT_THAT(out.ToVector(), ::testing::Each(2.0f));
  });
}

// A key without an optimiser holds sums of gradients, which must not be rounded on their way back.
TEST(WhatCompressionKeeps, SumsThatWorkersUpdateByAreNotRounded) {
  Job({.type = "dist_sync", .workers = 2}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    NDArray sum = Filled(kv, kShape, 70001);
    kv.PushPull(kKey, sum);
    EXPECT_THAT(sum.ToVector(), ::testing::Each(140002.0f));
  });
}

TEST(WhatCompressionKeeps, WeightsBeyondTheRangeOfFp16AreItsLargest) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    NDArray values = Filled(kv, kShape, -70001);
    kv.PushPull(kKey, values);
    EXPECT_THAT(values.ToVector(), ::testing::Each(-65504.0f));
  });
}

OptimizerConfig MeanOfSamples() {
  return {.kind = OptimizerKind::kSgd, .learning_rate = 1, .normalize_by_samples = true};
}

// The last batch of an epoch is smaller. Then the gradient that is sent is scaled down with it, and so is the
// residual of earlier batches.
TEST(WhatCompressionKeeps, ASmallBatchIsNoLargerStep) {
  constexpr int kWorkers = 2;
  for (const Compression type :
       {Compression::k1Bit, Compression::k2Bit, Compression::kTopK, Compression::kFloat16}) {
    Job({.type = "dist_sync", .workers = kWorkers}).Run([&](KVStore& kv) {
      kv.Init(kKey, Filled(kv, kShape, 0));
      kv.SetOptimizer(MeanOfSamples());
      kv.SetGradientCompression(
          {.type = type, .threshold = type == Compression::k1Bit ? 0 : 32.0f, .ratio = 0.01f});
      double sum = 0;  // sum of the mean gradients
      float before = 0;
      for (const uint64_t samples : {64, 64, 64, 1, 64, 2, 64}) {
        const double mean = 0.4;  // 64 samples sum up to 25.6
        sum += mean;
        kv.Push(kKey, Filled(kv, kShape, mean * static_cast<double>(samples)), {.samples = samples});
        NDArray out = Filled(kv, kShape, 77);
        kv.Pull(kKey, &out);
        const std::vector<float> weights = out.ToVector();
        const float moved = std::abs(weights.back() - before);
        before = weights.back();
        // No step is larger than 2bit's threshold divided by 64 samples, or, for topk, than the whole
        // residual.
        EXPECT_LE(moved, type == Compression::kTopK ? sum + 1e-5 : 0.5 + 1e-5)
            << Name(type) << " " << samples;
        EXPECT_LE(-before, sum + 0.5 + 1e-5);
      }
      const bool arrives_soon = type == Compression::k2Bit || type == Compression::kFloat16;
      EXPECT_NEAR(-before, sum, arrives_soon ? 0.5 : sum);
    });
  }
}

// A worker with an empty share pushes zeros with 0 samples, which have no weight. The residual
// must not be sent with them.
TEST(WhatCompressionKeeps, APushWithoutSamplesKeepsWhatWasKept) {
  for (const char* type : {"dist_sync", "dist_async"}) {
    Job({.type = type}).Run([](KVStore& kv) {
      kv.Init(kKey, Filled(kv, kShape, 0));
      kv.SetOptimizer(MeanOfSamples());
      kv.SetGradientCompression({.type = Compression::kTopK, .ratio = 0.001f});  // one element of each part
      const double elements = static_cast<double>(kShape.size());
      kv.Push(kKey, Filled(kv, kShape, 1), {.samples = 1});
      for (int push = 0; push < 5; ++push) kv.Push(kKey, Filled(kv, kShape, 0), {.samples = 0});
      kv.SetGradientCompression({});
      kv.Push(kKey, Filled(kv, kShape, 0), {.samples = 1});
      NDArray out = Filled(kv, kShape, 77);
      kv.Pull(kKey, &out);
      double sum = 0;
      for (const float value : out.ToVector()) sum += value;
      EXPECT_DOUBLE_EQ(sum, -elements);
    });
  }
}

TEST(WhatCompressionKeeps, ASecondInitAndAFailedGradientKeepWhatWasKept) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = Compression::k2Bit});
    kv.Push(kKey, Filled(kv, kShape, 0.375));  // below the threshold: all of it stays in the residual
    kv.Init(kKey, Filled(kv, kShape, 5));
    kv.SetGradientCompression({});
    NDArray failed = Filled(kv, kShape, 1);
    SetWriter(failed, EnqueueOn(failed.context(), "backward", {},
                                [] { throw Error(ErrorCode::kDataLoss, "no gradient today"); }));
    ExpectError(ErrorCode::kDataLoss, {"no gradient today"}, [&] {
      kv.Push(kKey, failed);
      kv.WaitAll();
    });
    kv.Push(kKey, Filled(kv, kShape, 0.25));
    NDArray out = Filled(kv, kShape, 77);
    kv.Pull(kKey, &out);
    EXPECT_THAT(out.ToVector(), ::testing::Each(0.625f));
  });
}

// Gradients plus residual are too large for a float16. The rest arrives with the following pushes.
TEST(WhatCompressionKeeps, OfAFloat16KeyNothingIsLostEither) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0, 0, DType::kFloat16));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate, .rescale_grad = 1.0 / 1024});
    kv.SetGradientCompression({.type = Compression::k2Bit});
    for (int push = 0; push < 100; ++push) kv.Push(kKey, Filled(kv, kShape, 1024, 0, DType::kFloat16));
    kv.SetGradientCompression({});
    for (int push = 0; push < 3; ++push) kv.Push(kKey, Filled(kv, kShape, 1024, 0, DType::kFloat16));
    NDArray out = Filled(kv, kShape, 0, 0, DType::kFloat16);
    kv.Pull(kKey, &out);
    EXPECT_THAT(out.AsType(DType::kFloat32).ToVector(), ::testing::Each(::testing::FloatNear(103, 0.2f)));
  });
}

}  // namespace
}  // namespace sluice::testing
