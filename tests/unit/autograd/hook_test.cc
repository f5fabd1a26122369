// When the hooks of gradients are called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "tensor/access.h"

namespace sluice::autograd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// y = w_3 tanh(w_2 tanh(w_1 x)), and in which order the gradients were told of.
class HookTest : public ::testing::Test {
 protected:
  HookTest() {
    for (int i = 1; i <= 3; ++i) {
      NDArray weight = NDArray::From({0.1f, 0.2f, 0.3f, 0.4f}, {2, 2});
      AttachGrad(weight);
      SetGradHook(weight, [this, i] { told_.push_back(i); });
      weights_.push_back(weight);
    }
  }
  NDArray Forward() {
    const RecordScope record;
    NDArray y = x_;
    for (const NDArray& weight : weights_) y = ops::Dense(ops::Tanh(y), weight, NDArray());
    return y;
  }

  const NDArray x_ = NDArray::From({1, 2}, {1, 2});
  std::vector<NDArray> weights_;
  std::vector<int> told_;
};

TEST_F(HookTest, LastLayerFirstAndOnceForEachBackward) {
  Backward({Forward()});
  EXPECT_THAT(told_, ElementsAre(3, 2, 1));
  Backward({Forward()});
  EXPECT_THAT(told_, ElementsAre(3, 2, 1, 3, 2, 1));
}

TEST_F(HookTest, IsCalledBeforeTheRestOfBackwardIsIssued) {
  std::vector<uint64_t> versions;
  bool gradient_is_final = false;
  SetGradHook(weights_[2], [&] {
    for (const NDArray& weight : weights_) versions.push_back(GradVersion(weight));
    // What is issued from here on is queued behind the gradient.
    const NDArray seen = Grad(weights_[2]).Copy();
    gradient_is_final = seen.ToVector() != std::vector<float>(4, 0.0f);
  });
  Backward({Forward()});
  EXPECT_THAT(versions, ElementsAre(0, 0, 1));
  EXPECT_TRUE(gradient_is_final);
}

TEST_F(HookTest, ASharedWeightIsToldOfWhenItsLastUseIsIn) {
  NDArray shared = NDArray::From({2}, {1});
  AttachGrad(shared);
  float at_hook = 0;
  int calls = 0;
  SetGradHook(shared, [&] {
    ++calls;
    at_hook = Grad(shared).ToScalar();
  });
  NDArray y;
  {
    const RecordScope record;
    y = shared * shared * shared + shared;
  }
  Backward({y});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(at_hook, 13);  // 3 x^2 + 1
}

TEST_F(HookTest, OneForAllHeads) {
  const NDArray first = Forward(), second = Forward();
  Backward({first, second});
  EXPECT_THAT(told_, ElementsAre(3, 2, 1));
}

TEST_F(HookTest, SeesTheSumWhereGradientsAddUp) {
  NDArray x = NDArray::From({1, 2}, {2});
  AttachGrad(x, GradReq::kAdd);
  std::vector<std::vector<float>> seen;
  SetGradHook(x, [&] { seen.push_back(Grad(x).ToVector()); });
  for (int i = 0; i < 2; ++i) {
    NDArray y;
    {
      const RecordScope record;
      y = x * 3;
    }
    Backward({y});
  }
  EXPECT_THAT(seen, ElementsAre(Each(3), Each(6)));
}

TEST_F(HookTest, AnEmptyOneRemovesIt) {
  SetGradHook(weights_[1], nullptr);
  Backward({Forward()});
  EXPECT_THAT(told_, ElementsAre(3, 1));
}

TEST_F(HookTest, WorkInTheHookIsNotRecorded) {
  bool recording = true;
  SetGradHook(weights_[0], [&] { recording = IsRecording(); });
  const NDArray y = Forward();
  const RecordScope record;
  Backward({y});
  EXPECT_FALSE(recording);
  EXPECT_TRUE(IsRecording());
}

TEST_F(HookTest, AReaderOfTheLastGradientHoldsTheNextOneBack) {
  const Event sent = Event::Make("sending");
  SetGradHook(weights_[0], nullptr);
  Backward({Forward()});
  const std::vector<float> first = Grad(weights_[0]).ToVector();
  AddReader(Grad(weights_[0]), sent);
  const NDArray y = Forward();
  Backward({y}, {NDArray::From({2, 2}, {1, 2})});
  EXPECT_FALSE(ReadyToRead(Grad(weights_[0])).Done());
  sent.Complete();
  std::vector<float> twice = first;
  for (float& value : twice) value *= 2;
  EXPECT_EQ(Grad(weights_[0]).ToVector(), twice);
}

}  // namespace
}  // namespace sluice::autograd
