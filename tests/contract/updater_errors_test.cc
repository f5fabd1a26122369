// An updater of the user's own that goes wrong.
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
    kv.SetUpdater([](const Key&, const NDArray& gradient, NDArray& weight) { weight += gradient; });
    kv.Push(kKey, Filled(kv, kShape, 1));
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.ToVector(), std::vector<float>(static_cast<size_t>(kShape.size()), 11));
  });
}

}  // namespace
}  // namespace sluice::testing
