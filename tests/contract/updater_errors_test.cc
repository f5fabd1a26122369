// Updaters of the program that throw, or that assign to the weight instead of writing into it.
#include <gtest/gtest.h>

#include <stdexcept>

#include "contract/weight_key.h"

namespace sluice::testing {
namespace {

TEST(UpdaterErrorsOfLocalStores, NameTheKeyAndLeaveTheStoreInOrder) {
  Job({.type = "local"}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 10));
    const auto error_of = [&](ErrorCode code, KVStore::Updater updater) {
      kv.SetUpdater(std::move(updater));
      return ErrorOf(code, [&] { kv.Push(kKey, Filled(kv, kShape, 1)); });
    };
    const std::string head = "push of key weight: the updater failed: ";
    EXPECT_EQ(error_of(ErrorCode::kDataLoss, [](const Key&, const NDArray&,
                                                NDArray&) { throw Error(ErrorCode::kDataLoss, "lost"); }),
              head + "lost");
    EXPECT_EQ(error_of(ErrorCode::kFailedPrecondition,
                       [](const Key&, const NDArray&, NDArray&) { throw std::runtime_error("boom"); }),
              head + "boom");
    EXPECT_EQ(error_of(ErrorCode::kFailedPrecondition, [](const Key&, const NDArray&, NDArray&) { throw 7; }),
              head + "it threw something that is no std::exception");
    EXPECT_EQ(error_of(ErrorCode::kFailedPrecondition,
                       [&](const Key& key, const NDArray&, NDArray& weight) { kv.Pull(key, &weight); }),
              head + "an updater may not call the store that calls it");
    for (const NDArray& other : {NDArray(), NDArray({kShape.size() + 1})}) {
      kv.SetUpdater([&](const Key&, const NDArray&, NDArray& weight) { weight = other; });
      const std::string error =
          ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Push(kKey, Filled(kv, kShape, 1)); });
      EXPECT_NE(error.find("the updater's weight of key weight"), std::string::npos) << error;
    }
    kv.SetUpdater([](const Key&, const NDArray& gradient, NDArray& weight) { weight += gradient; });
    kv.Push(kKey, Filled(kv, kShape, 1));
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.ToVector(), std::vector<float>(static_cast<size_t>(kShape.size()), 11));
  });
}

// The updater does `weight = gradient`. The gradient may be the caller's array or the store's sum, so the
// store must copy what is assigned.
TEST(UpdatersOfLocalStores, WhatIsAssignedIsCopied) {
  for (const int devices : {1, 2}) {
    Job({.type = "local"}).Run([&](KVStore& kv) {
      kv.Init(kKey, Filled(kv, kShape, 10));
      const auto weight_after = [&](const KVStore::Updater& updater, double pushed) {
        kv.SetUpdater(updater);
        std::vector<NDArray> gradients;
        for (int i = 0; i < devices; ++i) gradients.push_back(Filled(kv, kShape, pushed, i));
        kv.Push(kKey, gradients);
        for (NDArray& gradient : gradients) gradient.Fill(100);
        NDArray out = Filled(kv, kShape, 0);
        kv.Pull(kKey, &out);
        return out.ToVector();
      };
      const auto all = [](float value) {
        return std::vector<float>(static_cast<size_t>(kShape.size()), value);
      };
      const auto n = static_cast<float>(devices);
      const KVStore::Updater assigns = [](const Key&, const NDArray& gradient, NDArray& weight) {
        weight = gradient;
      };
      const KVStore::Updater adds = [](const Key&, const NDArray& gradient, NDArray& weight) {
        weight += gradient;
      };
      EXPECT_EQ(weight_after(assigns, 1), all(n));
      EXPECT_EQ(weight_after(adds, 10), all(11 * n));
    });
  }
}

// As a server's updater does, it gets the sum over devices divided, which fits float16 where the mean does.
TEST(UpdatersOfLocalStores, GetTheSumDividedByThePushsDivisor) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    Job({.type = "local"}).Run([&](KVStore& kv) {
      std::vector<std::vector<float>> seen;
      kv.SetUpdater([&](const Key&, const NDArray& gradient, NDArray& weight) {
        EXPECT_EQ(gradient.dtype(), dtype);
        seen.push_back(gradient.AsType(DType::kFloat32).ToVector());
        gradient.CopyTo(&weight);
      });
      kv.Init(kKey, Filled(kv, {3}, 0, 0, dtype));
      std::vector<NDArray> gradients;
      for (int i = 0; i < 4; ++i) gradients.push_back(Filled(kv, {3}, 0x1p14, i, dtype));
      kv.Push(kKey, gradients, {.divisor = 8});  // 65536 before the division: beyond float16
      kv.Push(kKey, gradients.front(), {.divisor = 0.5});
      kv.Push(kKey, gradients.front());
      kv.InitRowSparse("table", {9, 1}, dtype);
      const std::vector<int64_t> ids = {5, 2, 5, 5, 5};
      kv.PushRowSparse("table", RowSparse{NDArray::From(ids), Filled(kv, {5, 1}, 0x1p14, 0, dtype)},
                       {.divisor = 4});
      EXPECT_EQ(seen, (std::vector<std::vector<float>>{
                          {8192, 8192, 8192}, {32768, 32768, 32768}, {16384, 16384, 16384}, {4096, 16384}}));
      EXPECT_EQ(gradients.front().AsType(DType::kFloat32).ToVector(), std::vector<float>(3, 0x1p14f));
    });
  }
}

}  // namespace
}  // namespace sluice::testing
