#include "worker/store/small_keys.h"

#include <gtest/gtest.h>

#include "tensor/access.h"
#include "unit/tensor/gate.h"
#include "unit/worker/store_fixture.h"

namespace sluice::worker {
namespace {

class SmallKeysTest : public ::testing::Test {
 protected:
  SmallKeysTest() {  // streams fill them with zeros
    value_[0].WaitToRead();
    of_w_[0].WaitToRead();
  }
  SmallKeys Of(const FoundKeys& keys) {
    return {store_.context, settings_, issuer_, arrays_, OpKind::kPush, keys, PushOptions()};
  }
  // Whether the key goes in a batch, in a call of its own.
  bool Takes(SmallKeys&& small, StoreKey& key, SmallKeys::Arrays values, SmallKeys::Arrays outs) {
    return Takes(small, key, values, outs);
  }
  bool Takes(SmallKeys& small, StoreKey& key, SmallKeys::Arrays values, SmallKeys::Arrays outs) {
    CallBatch calls = issuer_.NewCallBatch(2);
    return small.Take(key.push, key, values, outs, calls);
  }

  StoreFixture store_;
  StoreSettings settings_;
  DeviceArrays arrays_{store_.context, collective::MakeHostReducer(1)};
  Issuer issuer_{store_.context};
  StoreKey& w_ = store_.AddKey("w", 4096, 4096);
  StoreKey& b_ = store_.AddKey("b", 4, 4);
  std::vector<NDArray> value_ = {NDArray({4})}, of_w_ = {NDArray({4096})};
};

TEST_F(SmallKeysTest, OnlyWhatGainsByItIsBatched) {
  StoreKey& large = store_.AddKey("large", 4097, 4097);
  StoreKey& split = store_.AddKey("split", 8, 4);
  SmallKeys small = Of({&w_, &b_, &large, &split});
  EXPECT_TRUE(Takes(small, w_, &of_w_, nullptr));
  EXPECT_TRUE(Takes(small, b_, &value_, nullptr));
  EXPECT_FALSE(Takes(small, large, &value_, nullptr));
  EXPECT_FALSE(Takes(small, split, &value_, nullptr));
  EXPECT_FALSE(Takes(Of({&b_}), b_, &value_, nullptr)) << "a key alone";
  const std::vector<NDArray> two = {NDArray({4}), NDArray({4})};
  EXPECT_FALSE(Takes(small, b_, &two, nullptr)) << "arrays of two devices";
}

TEST_F(SmallKeysTest, ABatchWaitsForNothing) {
  SmallKeys small = Of({&w_, &b_});
  Gate gate;
  SetWriter(value_[0], gate.event());
  EXPECT_FALSE(Takes(small, b_, &value_, nullptr)) << "a gradient that is still computed";
  gate.Open();
  EXPECT_TRUE(Takes(small, b_, &value_, nullptr));
  const Event read = Event::Make("a reader");
  AddReader(value_[0], read);
  EXPECT_TRUE(Takes(small, b_, &value_, nullptr)) << "a gradient may be read";
  EXPECT_FALSE(Takes(small, b_, nullptr, &value_)) << "an output that is still read";
  read.Complete();
  b_.issued = Event::Make("an operation before");
  EXPECT_FALSE(Takes(small, b_, &value_, nullptr));
  b_.issued.Complete();
  EXPECT_TRUE(Takes(small, b_, &value_, nullptr));
}

TEST_F(SmallKeysTest, NothingIsBatchedWhileACompressionIsSet) {
  settings_.compression.type = Compression::k2Bit;
  EXPECT_FALSE(Takes(Of({&w_, &b_}), b_, &value_, nullptr));
  settings_.compression = {.weights = Compression::kFloat16};
  EXPECT_TRUE(Takes(Of({&w_, &b_}), b_, &value_, nullptr)) << "a key without an optimiser holds gradients";
  settings_.optimizer = Optimizer::Create({});
  EXPECT_FALSE(Takes(Of({&w_, &b_}), b_, &value_, nullptr));
}

}  // namespace
}  // namespace sluice::worker
