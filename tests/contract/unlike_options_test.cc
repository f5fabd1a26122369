// Small keys that are pushed with different options while the link is busy, so that they wait in one queue
// and might share messages. Each must be scaled by its own options, and its weight must come back in the type
// that its own options ask for.
#include <gtest/gtest.h>

#include <ranges>

#include "base/strings.h"
#include "contract/weight_key.h"

namespace sluice::testing {
namespace {

constexpr int kRounds = 5, kSmall = 8, kWorkers = 2;
const Key kBusy = std::string("busy");
const Shape kLarge = {4 << 20};  // 16 MiB: far more than the congestion window at the start

std::vector<Key> InitKeys(KVStore& kv) {
  std::vector<Key> keys;
  for (int i = 0; i < kSmall; ++i) keys.emplace_back(StrCat("small ", i));
  kv.Init(kBusy, Filled(kv, kLarge, 0));
  for (const Key& key : keys) kv.Init(key, Filled(kv, kShape, 0));
  return keys;
}

class UnlikeOptions : public ::testing::TestWithParam<const char*> {
 protected:
  // Pushes the large key, and behind it each small key with options of its own.
  void Push(KVStore& kv, const std::vector<Key>& keys, const NDArray& large, const NDArray& small,
            const std::function<PushOptions(int i)>& options) const {
    kv.Push(kBusy, large);
    for (int i = 0; i < kSmall; ++i) kv.Push(keys[static_cast<size_t>(i)], small, options(i));
  }
  // Returns for each small key the value of its elements after all workers' pushes.
  std::vector<float> Pulled(KVStore& kv, const std::vector<Key>& keys) const {
    kv.WaitAll(1min);
    kv.Barrier();
    std::vector<float> values;
    for (const Key& key : keys) {
      NDArray out = Filled(kv, kShape, 0);
      kv.Pull(key, &out);
      const std::vector<float> all = out.ToVector();
      EXPECT_EQ(std::ranges::count(all, all.front()), std::ssize(all));
      values.push_back(all.front());
    }
    kv.Barrier();
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, UnlikeOptions, ::testing::Values("dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

TEST_P(UnlikeOptions, EachKeyIsDividedByItsOwnDivisor) {
  Job({.type = GetParam(), .workers = kWorkers, .servers = 1}).Run([&](KVStore& kv) {
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    const std::vector<Key> keys = InitKeys(kv);
    const NDArray large = Filled(kv, kLarge, 1), small = Filled(kv, kShape, 64);
    for (int round = 0; round < kRounds; ++round)
      Push(kv, keys, large, small, [](int i) { return PushOptions{.divisor = i % 2 == 0 ? 1.0 : 4.0}; });
    const std::vector<float> pulled = Pulled(kv, keys);
    for (int i = 0; i < kSmall; ++i)
      EXPECT_EQ(pulled[static_cast<size_t>(i)], kRounds * kWorkers * (i % 2 == 0 ? 64 : 16)) << i;
  });
}

TEST_P(UnlikeOptions, EachKeyIsDividedByItsOwnSamples) {
  const bool sync = std::string_view(GetParam()) == "dist_sync";
  Job({.type = GetParam(), .workers = kWorkers, .servers = 1}).Run([&](KVStore& kv) {
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate, .normalize_by_samples = true});
    const std::vector<Key> keys = InitKeys(kv);
    const NDArray large = Filled(kv, kLarge, 1), small = Filled(kv, kShape, 64);
    for (int round = 0; round < kRounds; ++round)
      Push(kv, keys, large, small, [](int i) { return PushOptions{.samples = i % 2 == 0 ? 2u : 16u}; });
    const std::vector<float> pulled = Pulled(kv, keys);
    // In a sync store, the sum of a round is divided by the samples of all workers.
    for (int i = 0; i < kSmall; ++i) {
      const float of_one = i % 2 == 0 ? 32 : 4;
      EXPECT_EQ(pulled[static_cast<size_t>(i)], kRounds * of_one * static_cast<float>(sync ? 1 : kWorkers))
          << i;
    }
  });
}

TEST_P(UnlikeOptions, EachWeightComesInTheFormThatWasAskedFor) {
  Job({.type = GetParam(), .workers = 1, .servers = 1, .operation_timeout = 30s}).Run([&](KVStore& kv) {
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.SetGradientCompression({.weights = Compression::kFloat16});
    const std::vector<Key> keys = InitKeys(kv);
    const float third = 1.0f / 3;
    constexpr float kRounded = 0.333251953125f;  // the float16 nearest to 1/3
    NDArray large = Filled(kv, kLarge, 1);
    const NDArray small = Filled(kv, kShape, third);
    std::vector<NDArray> outs;
    kv.Push(kBusy, large);
    for (int i = 0; i < kSmall; ++i) {
      NDArray& out = outs.emplace_back(Filled(kv, kShape, 0));
      out.WaitToRead();
    }
    kv.Push(kBusy, large);
    for (int i = 0; i < kSmall; ++i)
      kv.PushPull(keys[static_cast<size_t>(i)], small, &outs[static_cast<size_t>(i)],
                  {.uncompressed = i % 2 == 0});
    for (int i = 0; i < kSmall; ++i)
      EXPECT_EQ(outs[static_cast<size_t>(i)].ToVector().front(), i % 2 == 0 ? third : kRounded) << i;
  });
}

}  // namespace
}  // namespace sluice::testing
