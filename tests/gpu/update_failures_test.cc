// Updates on a card whose gradients have failed, or depend on what a kernel has found wrong, change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/devices_of_machine.h"
#include "sluice/ops.h"
#include "sluice/optimizer.h"
#include "tensor/access.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// One array that fails ends the call's updates on its card, and no weight or state is changed.
TEST(UpdatesOnCards, OfACallFailTogether) {
  for (const bool before : {true, false}) {
    cuda::DevicesOfMachine machine;
    const std::shared_ptr<KVStore> store = StoreOf("device");
    const std::vector<std::string> names = {"a", "b", "c"};
    std::vector<NDArray> ones;
    for (size_t i = 0; i < names.size(); ++i) {
      ones.push_back(NDArray({3}, gpu(0)));
      ones.back().Fill(1);
    }
    store->Init(names, ones);
    store->SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.5});
    Gate from_outside;
    SetWriter(ones[1], from_outside.event());
    if (before) from_outside.Fail("the cable is cut");
    store->Push(names, ArrayLists(ones));
    if (!before) from_outside.Fail("the cable is cut");
    const std::string error = ErrorOf(ErrorCode::kUnavailable, [&] { store->WaitAll(); });
    EXPECT_THAT(error, AllOf(HasSubstr("the cable is cut"), HasSubstr("update of key a and 2 more")));
    NDArray fives({3}, gpu(0)), gradient({3}, gpu(0)), out = NDArray::Empty({3}, gpu(0));
    fives.Fill(5);
    gradient.Fill(2);
    for (const std::string& name : names) {
      ErrorOf(ErrorCode::kUnavailable, [&] {
        store->Pull(name, out);
        out.WaitToRead();
      });
      // What is set is there again. Momentum would move it further, had the first push entered it.
      store->Set(name, fives);
      store->Push(name, gradient);
      NDArray fresh = NDArray::Empty({3}, gpu(0));
      store->Pull(name, fresh);
      EXPECT_THAT(fresh.ToVector(), Each(3)) << name;
    }
  }
}

// However early the host sees what a kernel has found, an update by a gradient that depends on it changes
// nothing.
TEST(UpdatesOnCards, LeaveAWeightAloneWhoseGradientDependsOnABadInput) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5})
    for (const int between : {0, 5, 50}) {
      cuda::DevicesOfMachine machine({.seed = seed});
      const std::shared_ptr<KVStore> store = StoreOf("device");
      store->Init("w", NDArray({3}, gpu(0)));
      store->SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.9});
      const NDArray bad = ops::SoftmaxCrossEntropy(NDArray({3, 4}, gpu(0)),
                                                   NDArray::From(std::vector<float>{0, 9, 0}, {3}, gpu(0)));
      NDArray gradient = bad;
      for (int i = 0; i < between; ++i) gradient = gradient + 1;
      store->Push("w", gradient);
      ErrorOf(ErrorCode::kInvalidArgument, [&] { store->WaitAll(); });
      NDArray fresh({3}, gpu(0)), out = NDArray::Empty({3}, gpu(0));
      fresh.Fill(2);
      store->Set("w", fresh);
      NDArray zeros({3}, gpu(0));
      store->Push("w", zeros);  // momentum would move the weight, had the bad gradient entered it
      store->Pull("w", out);
      EXPECT_EQ(out.ToVector<float>(), (std::vector<float>{2, 2, 2})) << "seed " << seed << ", " << between;
    }
}

}  // namespace
}  // namespace sluice::testing
