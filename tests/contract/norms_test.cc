// Updates that scale by norms over the whole array (lamb) give the same result on every type of store,
// however the array is split into parts. A key that several servers would share is refused, since no server
// knows the whole array.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/weight_key.h"
#include "golden/optimizer/formulas.h"
#include "sluice/store_type.h"

namespace sluice::testing {
namespace {

constexpr int kUpdates = 4;
const Shape kShapes[] = {{1}, {300}, {2, 2050}, {0}};

Key KeyOf(size_t i) {
  return StrCat("weight ", i);
}
OptimizerConfig Lamb() {
  OptimizerConfig config{.kind = OptimizerKind::kLamb, .learning_rate = 0.1, .wd = 0.1};
  config.multipliers["weight 1"] = {.lr_mult = 0.5, .wd_mult = 2};
  return config;
}

// Returns a gradient of whole numbers, whose sum over workers is exact in any order.
std::vector<float> Gradient(size_t key, int update, int worker) {
  Rng rng(1000 * key + 10 * static_cast<size_t>(update) + static_cast<size_t>(worker));
  std::vector<float> values(static_cast<size_t>(kShapes[key].size()));
  for (float& value : values) value = static_cast<float>(rng.Below(17)) - 8;
  return values;
}
std::vector<float> Initial(size_t key) {
  return Gradient(key, 9, 9);
}

class Norms : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  // Async stores have one worker, because the order of pushes from several would affect the result.
  int workers() const { return IsDist() && !IsAsync() ? 2 : 1; }
};

std::vector<double> Reference(size_t key, int workers) {
  const OptimizerConfig config = Lamb();
  const LrWdMultiplier mult = key == 1 ? config.multipliers.at("weight 1") : LrWdMultiplier{};
  std::vector<reference::Element> array;
  for (const float w : Initial(key)) array.push_back({.weight = w});
  for (int t = 1; t <= kUpdates; ++t) {
    std::vector<double> sum(array.size());
    for (int worker = 0; worker < workers; ++worker) {
      const auto gradient = Gradient(key, t, worker);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    reference::UpdateArray(
        config, {.rate = config.learning_rate * mult.lr_mult, .t = t, .scale = 0.5, .wd_mult = mult.wd_mult},
        sum, array);
  }
  std::vector<double> weights;
  for (const auto& element : array) weights.push_back(element.weight);
  return weights;
}

TEST_P(Norms, AreOfTheWholeArrayHoweverItIsCut) {
  // The first run has parts of 64 float32 elements, the second one has the key in one part.
  std::vector<std::vector<float>> ends[2];
  for (const int64_t part_bytes : {256, 1 << 20}) {
    Job({.type = GetParam(), .workers = workers(), .server_threads = 2, .part_bytes = part_bytes})
        .Run([&](KVStore& kv) {
          for (size_t key = 0; key < std::size(kShapes); ++key)
            kv.Init(KeyOf(key),
                    NDArray::From(std::span<const float>(Initial(key)), kShapes[key], DeviceOf(kv)));
          kv.SetOptimizer(Lamb());
          kv.Barrier();
          for (int t = 1; t <= kUpdates; ++t) {
            for (size_t key = 0; key < std::size(kShapes); ++key)
              kv.Push(KeyOf(key),
                      NDArray::From(std::span<const float>(Gradient(key, t, kv.rank())), kShapes[key],
                                    DeviceOf(kv)),
                      {.divisor = 2});
          }
          for (size_t key = 0; key < std::size(kShapes); ++key) {
            NDArray out = Filled(kv, kShapes[key], 0);
            kv.Pull(KeyOf(key), &out);
            const auto weights = out.ToVector();
            const auto expected = Reference(key, workers());
            for (size_t i = 0; i < weights.size(); ++i)
              ASSERT_NEAR(weights[i], expected[i], 1e-5) << key << " " << i;
            if (kv.rank() == 0) ends[part_bytes == 256 ? 0 : 1].push_back(weights);
          }
        });
  }
  EXPECT_EQ(ends[0], ends[1]);  // exactly
}

TEST_P(Norms, AKeyThatServersShareIsRefusedByNameAndNothingChanges) {
  Job({.type = GetParam(), .workers = workers(), .bigarray_bound = 200}).Run([&](KVStore& kv) {
    kv.Init(Key("small"), Filled(kv, {100}, 1));
    kv.Init(Key("large"), Filled(kv, {300}, 1));
    if (!IsDist()) return kv.SetOptimizer(Lamb());
    kv.SetOptimizer({.learning_rate = 0.5});
    kv.Barrier();
    if (kv.rank() == 0) {
      ExpectError(ErrorCode::kInvalidArgument,
                  {"key large of 300 elements is cut into 2 slices", "lamb", "MXNET_KVSTORE_BIGARRAY_BOUND",
                   "update_on_kvstore"},
                  [&] { kv.SetOptimizer(Lamb()); });
    }
    kv.Barrier();
    kv.Push(Key("large"), Filled(kv, {300}, 1));
    NDArray out = Filled(kv, {300}, 0);
    kv.Pull(Key("large"), &out);
    EXPECT_EQ(out.ToVector(), std::vector<float>(300, 1 - 0.5f * static_cast<float>(workers())));
  });
}

TEST_P(Norms, AKeyThatServersWouldShareIsRefusedAtInit) {
  Job({.type = GetParam(), .workers = 1, .bigarray_bound = 200}).Run([&](KVStore& kv) {
    kv.SetOptimizer(Lamb());
    kv.Init(Key("small"), Filled(kv, {100}, 1));
    if (!IsDist()) return kv.Init(Key("large"), Filled(kv, {300}, 1));  // no servers share it
    ExpectError(ErrorCode::kInvalidArgument, {"key large of 300 elements", "MXNET_KVSTORE_BIGARRAY_BOUND"},
                [&] { kv.Init(Key("large"), Filled(kv, {300}, 1)); });
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, Norms, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
