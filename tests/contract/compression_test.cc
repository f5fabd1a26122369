// Pushes compressed gradients through whole jobs, and compares the results with a second
// implementation of the compressions in this file, which works element by element. Also the
// compression of weights on their way back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/weight_key.h"
#include "tensor/access.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kThreshold = 0.5f;
constexpr double kRescale = 2;

OptimizerConfig Accumulate() {
  return {.kind = OptimizerKind::kAccumulate, .rescale_grad = kRescale};
}

const Shape kShapes[] = {{2, 3}, {1200, 1200}, {1211, 1211}};

std::vector<Key> InitKeys(KVStore& kv) {
  std::vector<Key> keys;
  for (const Shape& shape : kShapes) {
    keys.emplace_back(std::string("of ") + shape.ToString());
    kv.Init(keys.back(), Filled(kv, shape, 0));
  }
  return keys;
}

class CompressedJob : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, CompressedJob, ::testing::Values(3, 7),
                         [](const auto& info) { return StrCat("dist_sync_on_", info.param); });

// The behaviour of MXNet's 2bit compression (tests/nightly/dist_sync_kvstore.py).
TEST_P(CompressedJob, TwoBitPushesArriveWhenTheyReachTheThreshold) {
  const int workers = GetParam();
  Job({.type = "dist_sync", .workers = workers}).Run([&](KVStore& kv) {
    kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = kThreshold});
    kv.SetOptimizer(Accumulate());
    const std::vector<Key> keys = InitKeys(kv);
    const float arriving = static_cast<float>(kRescale * workers) * kThreshold;
    const std::pair<double, float> pushes[] = {
        {0, 0},           {0.4, 0},  {0.1, arriving},  {0.2, arriving}, {0.3, 2 * arriving},
        {-0.5, arriving}, {-0.5, 0}, {-0.5, -arriving}};
    for (const auto& [gradient, expected] : pushes) {
      for (size_t i = 0; i < keys.size(); ++i) {
        NDArray out = Filled(kv, kShapes[i], 77);
        kv.Push(keys[i], Filled(kv, kShapes[i], gradient));
        kv.Pull(keys[i], &out);
        const std::vector<float> pulled = out.ToVector();
        ASSERT_EQ(std::ranges::count(pulled, expected), kShapes[i].size())
            << pulled[0] << " after " << gradient << ", " << kShapes[i];
      }
    }
  });
}

struct Scheme {
  Compression type;
  float (*sent)(float r);  // what is sent of r, the sum of residual and gradient
};
const Scheme kSchemes[] = {{Compression::k2Bit,
                            [](float r) {
                              return r >= kThreshold ? kThreshold : r <= -kThreshold ? -kThreshold : 0;
                            }},
                           {Compression::k1Bit, [](float r) { return r > kThreshold ? 1.0f : -1.0f; }}};

std::vector<float> Gradient(int worker, int round, size_t n) {
  Rng rng(DeriveSeed(11, worker, round));
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(rng.Uniform(-0.6, 0.6));
  return values;
}

// Returns the value of a key after every worker has pushed `rounds` rounds.
std::vector<double> Simulated(const Scheme& scheme, int workers, int rounds, size_t n) {
  std::vector<double> weight(n);
  for (int worker = 0; worker < workers; ++worker) {
    std::vector<float> residual(n);
    for (int round = 0; round < rounds; ++round) {
      const std::vector<float> gradient = Gradient(worker, round, n);
      for (size_t i = 0; i < n; ++i) {
        const float r = residual[i] + gradient[i], sent = scheme.sent(r);
        residual[i] = r - sent;
        weight[i] += kRescale * sent;
      }
    }
  }
  return weight;
}

TEST_P(CompressedJob, RandomGradientsArriveAsTheSchemesSay) {
  constexpr int kRounds = 3;
  const int workers = GetParam();
  for (const Scheme& scheme : kSchemes) {
    std::vector<std::vector<double>> expected;
    for (const Shape& shape : kShapes)
      expected.push_back(Simulated(scheme, workers, kRounds, static_cast<size_t>(shape.size())));
    Job({.type = "dist_sync", .workers = workers}).Run([&](KVStore& kv) {
      kv.SetGradientCompression({.type = scheme.type, .threshold = kThreshold});
      kv.SetOptimizer(Accumulate());
      const std::vector<Key> keys = InitKeys(kv);
      for (int round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < keys.size(); ++i) {
          const std::vector<float> gradient = Gradient(kv.rank(), round, expected[i].size());
          kv.Push(keys[i], NDArray::From(std::span<const float>(gradient), kShapes[i], DeviceOf(kv)));
        }
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        NDArray out = Filled(kv, kShapes[i], 77);
        kv.Pull(keys[i], &out);
        const std::vector<float> pulled = out.ToVector();
        // All values are small integers, so no sum is rounded.
        for (size_t e = 0; e < pulled.size(); ++e)
          ASSERT_EQ(pulled[e], expected[i][e])
              << Name(scheme.type) << ", element " << e << " of " << kShapes[i];
      }
    });
  }
}

struct StoreAndType {
  std::string store;
  Compression type;
};
class CompressedStore : public ::testing::TestWithParam<StoreAndType> {};
std::vector<StoreAndType> StoresAndTypes() {
  std::vector<StoreAndType> all;
  for (const char* store : {"dist_sync", "dist_device_sync", "dist_async", "dist_device_async"}) {
    for (const Compression type : {Compression::k2Bit, Compression::k1Bit, Compression::kFloat16,
                                   Compression::kBFloat16, Compression::kTopK})
      all.push_back({store, type});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Stores, CompressedStore, ::testing::ValuesIn(StoresAndTypes()),
                         [](const auto& info) {
                           return info.param.store + "_" + std::string(Name(info.param.type));
                         });

// After compression is switched off, the residuals go with the next push: then the sum of all gradients has
// arrived, with any compression.
TEST_P(CompressedStore, NothingIsLostOnceItIsSwitchedOff) {
  constexpr int kPushes = 5, kWorkers = 2;
  const Shape shape{300, 400};  // beyond the bound: several parts on two servers
  Job({.type = GetParam().store, .workers = kWorkers, .part_bytes = 100'000}).Run([&](KVStore& kv) {
    const Key key = std::string("w");
    kv.Init(key, Filled(kv, shape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = GetParam().type});
    for (int push = 0; push < kPushes; ++push)
      kv.Push(key, {Filled(kv, shape, 0.15, 0), Filled(kv, shape, 0.02, 1)});
    kv.SetGradientCompression({});
    for (int push = 0; push < 2; ++push) kv.Push(key, Filled(kv, shape, 0.25));
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, shape, 77);
    kv.Pull(key, &out);
    ASSERT_THAT(out.ToVector(),
                ::testing::Each(::testing::FloatNear(kWorkers * (kPushes * 0.17f + 0.5f), 1e-5f)));
    kv.Barrier();
  });
}

TEST_P(CompressedStore, PushPullInPlace) {
  Job({.type = GetParam().store, .workers = 1}).Run([&](KVStore& kv) {
    const Key key = std::string("w");
    kv.Init(key, Filled(kv, {1000}, 1));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = GetParam().type, .ratio = 0.4f});
    // Every type sends at least half of such a gradient. topk sends as many elements as are not 0.
    const size_t sends = GetParam().type == Compression::kTopK ? 400 : 1000;
    std::vector<float> gradient(1000);
    std::fill_n(gradient.begin(), sends, 1.0f);
    NDArray values = NDArray::From(std::span<const float>(gradient), {1000});
    kv.PushPull(key, values);
    const float sent = GetParam().type == Compression::k2Bit ? 0.5f : 1;
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = i < sends ? 1 + sent : 1;
    EXPECT_EQ(values.ToVector(), gradient);
  });
}

TEST_P(CompressedStore, KeysThatItDoesNotFitTravelAsTheyAre) {
  Job({.type = GetParam().store, .workers = 1}).Run([&](KVStore& kv) {
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = GetParam().type});
    for (const DType dtype : {DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUInt8}) {
      const Key key = std::string(Name(dtype));
      kv.Init(key, Filled(kv, {7}, 3, 0, dtype));
      kv.Push(key, Filled(kv, {7}, 4, 0, dtype));
      NDArray out = Filled(kv, {7}, 77, 0, dtype);
      kv.Pull(key, &out);
      const NDArray got = HostArray(out), expected = HostArray(Filled(kv, {7}, 7, 0, dtype));
      got.WaitToRead();
      expected.WaitToRead();
      EXPECT_TRUE(std::ranges::equal(HostBytes(got), HostBytes(expected))) << Name(dtype);
    }
    const Key none = std::string("no elements");
    kv.Init(none, Filled(kv, {0}, 0));
    kv.Push(none, Filled(kv, {0}, 0));
    kv.WaitAll();
  });
}

TEST(GradientCompressionOfAStore, BadSettingsAreRefusedAndChangeNothing) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    ExpectError(ErrorCode::kInvalidArgument, {"threshold is -1", "above 0"},
                [&] { kv.SetGradientCompression({.type = Compression::k2Bit, .threshold = -1}); });
    kv.Push(kKey, Filled(kv, kShape, 0.125));
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_THAT(out.ToVector(), ::testing::Each(0.125f));
  });
}

TEST(CompressionOfLocalStores, IsRefusedAsTheySendNothing) {
  for (const char* type : {"local", "device"}) {
    Job({.type = type}).Run([&](KVStore& kv) {
      ExpectError(ErrorCode::kFailedPrecondition, {"2bit", type, "dist"},
                  [&] { kv.SetGradientCompression({.type = Compression::k2Bit}); });
      ExpectError(ErrorCode::kFailedPrecondition, {"weights bf16", type},
                  [&] { kv.SetGradientCompression({.weights = Compression::kBFloat16}); });
      ExpectError(ErrorCode::kInvalidArgument, {"ratio"}, [&] { kv.SetGradientCompression({.ratio = 0}); });
      kv.SetGradientCompression({});
    });
  }
}

// With these ratios, topk's elements with their indices would take up to four times the bytes of the whole
// gradient, which is more than a server accepts in a frame.
TEST(GradientCompressionOfAStore, TopKOfMostElementsTravelsAsItIs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    Job({.type = "dist_sync", .workers = 2, .bigarray_bound = 1 << 30}).Run([&](KVStore& kv) {
      const Shape shape{int64_t{1} << 22};  // parts of 1 MiB
      kv.Init(kKey, Filled(kv, shape, 0, 0, dtype));
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      kv.Barrier();
      for (const float ratio : {0.6f, 1.0f}) {
        kv.SetGradientCompression({.type = Compression::kTopK, .ratio = ratio});
        kv.Push(kKey, Filled(kv, shape, 2, 0, dtype));
      }
      NDArray out = Filled(kv, shape, 0, 0, dtype);
      kv.Pull(kKey, &out);
      const std::vector<float> values = out.AsType(DType::kFloat32).ToVector();
      EXPECT_EQ(std::ranges::count(values, 8), shape.size()) << Name(dtype);
    });
  }
}

class RoundedWeights : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Stores, RoundedWeights,
                         ::testing::Values("dist_sync", "dist_device_sync", "dist_async",
                                           "dist_device_async"),
                         [](const auto& info) { return info.param; });

TEST_P(RoundedWeights, ComeRoundedAndStayWhatTheyAreOnTheServers) {
  const Shape shape{300, 400};  // several parts on two servers
  Job({.type = GetParam(), .workers = 2, .part_bytes = 100'000}).Run([&](KVStore& kv) {
    const Key key = std::string("w"), wide = std::string("float64");
    kv.Init(key, Filled(kv, shape, 1.0001));
    kv.Init(wide, Filled(kv, {7}, 1.0001, 0, DType::kFloat64));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    NDArray out = Filled(kv, shape, 77), doubles = Filled(kv, {7}, 77, 0, DType::kFloat64);
    kv.Pull(key, &out);
    EXPECT_THAT(out.ToVector(), ::testing::Each(1.0001f)) << "nothing was pushed";
    kv.Barrier();
    for (int push = 0; push < 10; ++push) kv.Push(key, Filled(kv, shape, 0.0001));
    kv.Push(wide, Filled(kv, {7}, 0.0001, 0, DType::kFloat64));
    kv.WaitAll();
    kv.Barrier();
    kv.Pull({key, wide}, {{out}, {doubles}});
    EXPECT_THAT(out.ToVector(), ::testing::Each(1.001953125f));  // the float16 nearest to 1.0021
    EXPECT_THAT(doubles.ToVector<double>(), ::testing::Each(::testing::DoubleNear(1.0003, 1e-12)));
    kv.Barrier();
    kv.SetGradientCompression({});
    kv.Pull(key, &out);
    EXPECT_THAT(out.ToVector(), ::testing::Each(::testing::FloatNear(1.0021f, 1e-5f)));
    kv.Barrier();
  });
}

TEST(GradientCompressionOfAStore, WhatIsNoGradientTravelsAsItIs) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = Compression::k2Bit});
    NDArray values = Filled(kv, kShape, 0.375);
    kv.Push(kKey, values);  // below the threshold: all of it stays in the residual
    kv.PushPull(kKey, values, nullptr, {.uncompressed = true});
    EXPECT_THAT(values.ToVector(), ::testing::Each(0.375f));
    kv.Push(kKey, Filled(kv, kShape, 0.125));
    kv.Pull(kKey, &values);
    EXPECT_THAT(values.ToVector(), ::testing::Each(0.875f));
  });
}

TEST(GradientCompressionOfAStore, AGradientThatFailedDoesNotSpoilTheNext) {
  Job({.type = "dist_sync"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.type = Compression::kFloat16});
    NDArray failed = Filled(kv, kShape, 1);
    SetWriter(failed, EnqueueOn(failed.context(), "backward", {},
                                [] { throw Error(ErrorCode::kDataLoss, "no gradient today"); }));
    ExpectError(ErrorCode::kDataLoss, {"no gradient today"}, [&] {
      kv.Push(kKey, failed);
      kv.WaitAll();
    });
    kv.Push(kKey, Filled(kv, kShape, 2));
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_THAT(out.ToVector(), ::testing::Each(2.0f));
  });
}

}  // namespace
}  // namespace sluice::testing
