// Small keys on cards travel in batches: few kernels and copies, values as if each key went by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contract/job.h"
#include "gpu/devices_of_machine.h"
#include "tensor/access.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kKeys = 40;

struct Arrays {
  Arrays(KVStore& kv, double value, int device = 0) {
    for (size_t k = 0; k < kKeys; ++k) {
      keys.emplace_back(static_cast<int64_t>(k));
      arrays.push_back(Filled(kv, {static_cast<int64_t>(3 * k + 1)}, value, device));
    }
  }
  std::vector<KVStore::Values> Lists() const {
    std::vector<KVStore::Values> lists;
    for (const NDArray& array : arrays) lists.push_back({array});
    return lists;
  }
  void Await() const {
    for (const NDArray& array : arrays) array.WaitToRead();
  }
  std::vector<Key> keys;
  std::vector<NDArray> arrays;
};

// A job with one worker, whose keys accumulate what is pushed.
void RunJob(const std::function<void(KVStore&, const Arrays& weights)>& body) {
  Job({.type = "dist_device_sync", .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
    const Arrays weights(kv, 0);
    kv.Init(weights.keys, weights.arrays);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    body(kv, weights);
  });
}

TEST(SmallKeysOnCards, ShareKernels) {
  cuda::DevicesOfMachine machine({.cards = 2, .seed = 3});
  RunJob([&](KVStore& kv, const Arrays& weights) {
    const Arrays gradients(kv, 2);
    gradients.Await();
    weights.Await();
    const int64_t before = machine->grids();
    kv.PushPull(weights.keys, gradients.Lists(), weights.Lists());
    for (size_t k = 0; k < kKeys; ++k) EXPECT_THAT(weights.arrays[k].ToVector(), Each(2)) << k;
    // One gathers, and one or a few, as the values arrive, copy them to their arrays.
    EXPECT_LT(machine->grids() - before, static_cast<int64_t>(kKeys) / 2);
  });
}

TEST(SmallKeysOnCards, OfTwoCardsAreSummedAndCopiedToBoth) {
  cuda::DevicesOfMachine machine({.cards = 2, .seed = 4});
  RunJob([&](KVStore& kv, const Arrays& weights) {
    const Arrays here(kv, 2), there(kv, 3, 1), copies(kv, 0, 1);
    std::vector<KVStore::Values> values, outs;
    for (size_t k = 0; k < kKeys; ++k) {
      values.push_back({here.arrays[k], there.arrays[k]});
      outs.push_back({weights.arrays[k], copies.arrays[k]});
    }
    for (int round = 1; round <= 3; ++round) {
      kv.PushPull(weights.keys, values, outs);
      for (size_t k = 0; k < kKeys; ++k)
        for (const NDArray& out : outs[k]) EXPECT_THAT(out.ToVector(), Each(5 * round)) << k;
    }
  });
}

// What a key of the call reads is what one before it has left there.
TEST(SmallKeysOnCards, OneArrayOfTwoKeysIsUsedInTheirOrder) {
  cuda::DevicesOfMachine machine({.seed = 5});
  Job({.type = "dist_sync", .workers = 1, .servers = 1}).Run([&](KVStore& kv) {
    const NDArray x = Filled(kv, {50}, 1), y = Filled(kv, {50}, 7);
    kv.Init({"a", "b", "c"}, {x, x, x});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.PushPull({"a", "b", "c"}, {{x}, {x}, {y}}, {{x}, {x}, {y}});
    EXPECT_THAT(x.ToVector(), Each(3));  // a: 1 + 1; b: 1 + 2
    EXPECT_THAT(y.ToVector(), Each(8));
  });
}

// A gradient that fails is not pushed, nor is what shares its batch; all of them have the error.
TEST(SmallKeysOnCards, AFailedGradientIsTheErrorOfItsBatch) {
  cuda::DevicesOfMachine machine({.seed = 6});
  RunJob([&](KVStore& kv, const Arrays& weights) {
    Arrays gradients(kv, 1);
    gradients.Await();
    Gate from_outside;
    SetWriter(gradients.arrays[1], from_outside.event());
    from_outside.Fail("the cable is cut");
    kv.PushPull(weights.keys, gradients.Lists(), weights.Lists());
    EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { weights.arrays[0].WaitToRead(); }),
                HasSubstr("the cable is cut"));
    EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { kv.WaitAll(); }), HasSubstr("the cable is cut"));
  });
}

}  // namespace
}  // namespace sluice::testing
