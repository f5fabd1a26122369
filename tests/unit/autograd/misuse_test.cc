// Errors of the caller, and that the variables are none the worse for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "unit/expect_error.h"

namespace sluice::autograd {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class MisuseTest : public ::testing::Test {
 protected:
  MisuseTest() { AttachGrad(x_); }
  NDArray Square() {
    const RecordScope record;
    return x_ * x_;
  }
  void ExpectNextBackwardWorks() {
    Backward({Square()});
    EXPECT_THAT(Grad(x_).ToVector(), Each(6));
  }
  NDArray x_ = NDArray::From({3, 3}, {2});
};

TEST_F(MisuseTest, HeadsThatWereNotRecorded) {
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward({x_ * x_}); }),
              HasSubstr("not recorded: compute it inside a RecordScope"));
  ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward({Square(), NDArray()}); });
  EXPECT_EQ(GradVersion(x_), 0u);
  ExpectNextBackwardWorks();
}

TEST_F(MisuseTest, HeadGradientsThatDoNotFit) {
  const auto refusal = [&](const NDArray& gradient) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { Backward({Square()}, {gradient}); });
  };
  EXPECT_THAT(refusal(NDArray({1})), AllOf(HasSubstr("[1]"), HasSubstr("[2]")));
  EXPECT_THAT(refusal(NDArray({2}, cpu(1))), AllOf(HasSubstr("cpu(0)"), HasSubstr("cpu(1)")));
  EXPECT_THAT(refusal(NDArray({2}, cpu(0), DType::kFloat64)), HasSubstr("float64"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        Backward({Square()}, {NDArray(), NDArray()});
                      }),
              HasSubstr("1 heads and 2 head gradients"));
  EXPECT_EQ(GradVersion(x_), 0u);
  ExpectNextBackwardWorks();
}

TEST_F(MisuseTest, TheSameGraphTwice) {
  const NDArray y = Square();
  int calls = 0;
  Backward({y});
  SetGradHook(x_, [&] { ++calls; });
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward({y}); }), HasSubstr("record it again"));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(GradVersion(x_), 1u);
  ExpectNextBackwardWorks();
}

TEST_F(MisuseTest, PartOfAGraphTwice) {
  NDArray common, first, second;
  {
    const RecordScope record;
    common = ops::Tanh(x_);
    first = common * 2;
    second = common * 3;
  }
  Backward({first});
  ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward({second}); });
  EXPECT_EQ(GradVersion(x_), 1u);
  ExpectNextBackwardWorks();
}

TEST_F(MisuseTest, AHookThatThrows) {
  NDArray first = NDArray::From({1, 1}, {2});
  AttachGrad(first);
  NDArray y;
  {
    const RecordScope record;
    y = ops::Tanh(first) * x_;
  }
  SetGradHook(x_, [] { throw Error(ErrorCode::kUnavailable, "the store is gone"); });
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { Backward({y}); }), HasSubstr("the store is gone"));
  EXPECT_FALSE(IsRecording());
  SetGradHook(x_, nullptr);
  ExpectNextBackwardWorks();
  {
    const RecordScope record;
    y = first * 5;
  }
  Backward({y});
  EXPECT_THAT(Grad(first).ToVector(), Each(5));
}

TEST_F(MisuseTest, AFailedOperationShowsAtTheWait) {
  NDArray scores({1, 2}), labels = NDArray::From({7}, {1});
  AttachGrad(scores);
  NDArray loss;
  {
    const RecordScope record;
    loss = ops::SoftmaxCrossEntropy(scores, labels);
  }
  Backward({loss});
  for (const NDArray& array : {loss, Grad(scores)}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { array.WaitToRead(); }),
                HasSubstr("operation SoftmaxCrossEntropy: label 7 of row 0 is no class of [0, 2)"));
  }
  labels.Fill(1);
  {
    const RecordScope record;
    loss = ops::SoftmaxCrossEntropy(scores, labels);
  }
  Backward({loss});
  EXPECT_THAT(Grad(scores).ToVector(), ::testing::ElementsAre(0.5, -0.5));
}

TEST_F(MisuseTest, GradientsThatWereNotAttached) {
  NDArray plain({2});
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Grad(plain); }), HasSubstr("call AttachGrad"));
  ErrorOf(ErrorCode::kFailedPrecondition, [&] { Grad(Square()); });
  ErrorOf(ErrorCode::kFailedPrecondition, [&] { SetGradHook(plain, [] {}); });
  EXPECT_EQ(GradVersion(plain), 0u);
}

TEST_F(MisuseTest, OperandsThatDoNotFit) {
  const NDArray x({2, 3}), there({4, 3}, cpu(1)), image({1, 2, 3, 3});
  const auto refusal = [](auto&& call) { return ErrorOf(ErrorCode::kInvalidArgument, call); };
  EXPECT_THAT(refusal([&] { ops::Dense(x, NDArray({4, 2}), NDArray()); }), HasSubstr("[4, 2] do not fit"));
  EXPECT_THAT(refusal([&] { ops::Dense(x, there, NDArray()); }),
              AllOf(HasSubstr("cpu(0)"), HasSubstr("cpu(1)")));
  refusal([&] { ops::Dense(x, NDArray({4, 3}), NDArray({3})); });
  refusal([&] { ops::Conv2D(image, NDArray({1, 3, 2, 2}), NDArray(), {}); });
  refusal([&] { ops::Conv2D(image, NDArray({1, 2, 4, 4}), NDArray(), {}); });
  refusal([&] { ops::MaxPool2D(x, {2, 2}); });
  refusal([&] { ops::AvgPool2D(image, {4, 4}); });
  refusal([&] { ops::Flatten(NDArray(Shape{})); });
  refusal([&] { ops::SoftmaxCrossEntropy(x, NDArray({3})); });
  refusal([&] { ops::Sum(NDArray({2}, cpu(0), DType::kInt32)); });
}

}  // namespace
}  // namespace sluice::autograd
