// Errors of the caller, and that the variables are none the worse for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "tensor/access.h"
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

// The gradient of a sum does not depend on what is summed, and backward reads no bias: only what the failed
// operation kept for backward tells of it.
TEST_F(MisuseTest, BackwardOfAFailedRecurrentOperationShowsAtTheWait) {
  NDArray x({1, 2, 1}), weight({3, 1}), bias({3});
  SetWriter(bias, EnqueueOn(cpu(0), "read", {}, [] { throw Error(ErrorCode::kDataLoss, "no such file"); }));
  for (NDArray* array : {&x, &weight}) AttachGrad(*array);
  NDArray sum;
  {
    const RecordScope record;
    sum = ops::Sum(
        ops::Gru(x, {.i2h_weight = weight, .h2h_weight = NDArray({3, 1}), .i2h_bias = bias}).outputs);
  }
  Backward({sum});
  for (const NDArray& array : {sum, Grad(x), Grad(weight)})
    EXPECT_EQ(ErrorOf(ErrorCode::kDataLoss, [&] { array.WaitToRead(); }), "operation read: no such file");
}

TEST_F(MisuseTest, WritingInPlaceWhatBackwardMayNeed) {
  NDArray factor = NDArray::From({5, 5}, {2}), y;
  const auto refusals = [&](NDArray& array, const char* why) {
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { array *= 2; }),
                AllOf(HasSubstr("*= writes in place"), HasSubstr(why)));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { array += array; }), HasSubstr(why));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { array -= array; }), HasSubstr(why));
  };
  {
    const RecordScope record;
    y = ops::Tanh(x_ * factor);
    refusals(y, "while the tape records");
    refusals(factor, "while the tape records");
    refusals(x_, "while the tape records");
  }
  refusals(y, "to what the tape has recorded");
  Backward({y});
  y *= 2;  // nobody needs it any more
  factor *= 2;
  {
    const RecordScope record;
    const PauseScope pause;
    x_ *= 1;
  }
  EXPECT_THAT(factor.ToVector(), Each(10));
  ExpectNextBackwardWorks();
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
  refusal([&] { ops::MaxPool2D(x, {2, 2}); });
  refusal([&] { ops::Flatten(NDArray(Shape{})); });
  refusal([&] { ops::SoftmaxCrossEntropy(x, NDArray({3})); });
  refusal([&] { ops::Sum(NDArray({2}, cpu(0), DType::kInt32)); });
}

TEST_F(MisuseTest, WindowsThatDoNotFit) {
  const NDArray image({1, 2, 3, 4}), weight({1, 2, 2, 2});
  using Pool = NDArray (*)(const NDArray&, const ops::Window2D&);
  for (const auto& [name, pool] : {std::pair<std::string, Pool>{"MaxPool2D", ops::MaxPool2D},
                                   std::pair<std::string, Pool>{"AvgPool2D", ops::AvgPool2D}}) {
    const auto refusal = [&, pool = pool](const ops::Window2D& window) {
      return ErrorOf(ErrorCode::kInvalidArgument, [&] { pool(image, window); });
    };
    EXPECT_THAT(refusal({2, 2, 0, 1}), HasSubstr(name + ": the stride is 0x1; both numbers must be from 1"));
    EXPECT_THAT(refusal({2, 2, 1, -1}), HasSubstr(name + ": the stride is 1x-1"));
    EXPECT_THAT(refusal({0, 2}), HasSubstr(name + ": the window is 0x2"));
    EXPECT_THAT(refusal({2, 2, 1, 1, -1, 0}), HasSubstr(name + ": the padding is -1x0"));
    EXPECT_THAT(refusal({2, 3, 1, 1, 0, 3}),
                HasSubstr(name + ": the padding 0x3 must be smaller than the window 2x3"));
    // A stride beyond the shortage: rounded towards zero there would be one position.
    EXPECT_THAT(refusal({4, 2, 3, 1}),
                HasSubstr("x [1, 2, 3, 4] with a padding of 0x0 is smaller than the window 4x2"));
    EXPECT_THAT(refusal({2, 7, 1, 4, 0, 1}),
                HasSubstr("with a padding of 0x1 is smaller than the window 2x7"));
    EXPECT_THAT(refusal({2, 2, 1, 1, INT64_MAX, 0}), HasSubstr("9223372036854775807x0"));
    EXPECT_EQ(pool(image, {3, 4, 5, 5}).shape(), (Shape{1, 2, 1, 1}));
    EXPECT_EQ(pool(image, {4, 4, 3, 3, 1, 0}).shape(), (Shape{1, 2, 1, 1}));
  }
  const auto refusal = [&](const NDArray& filter, const ops::Window2D& window) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ops::Conv2D(image, filter, NDArray(), window); });
  };
  EXPECT_THAT(refusal(weight, {.stride_height = 0}), HasSubstr("Conv2D: the stride is 0x1"));
  EXPECT_THAT(refusal(weight, {.pad_width = -2}), HasSubstr("Conv2D: the padding is 0x-2"));
  EXPECT_THAT(refusal(NDArray({1, 2, 0, 2}), {}), HasSubstr("Conv2D: the window is 0x2"));
  EXPECT_THAT(refusal(NDArray({1, 2, 4, 2}), {.stride_height = 2}),
              HasSubstr("Conv2D: x [1, 2, 3, 4] with a padding of 0x0 is smaller than the window 4x2"));
  EXPECT_EQ(ops::Conv2D(image, weight, NDArray(), {.pad_height = 2, .pad_width = 3}).shape(),
            (Shape{1, 1, 6, 9}));  // a padding beyond the filter is sound: those outputs are the bias
}

TEST_F(MisuseTest, SlicesOutsideTheArray) {
  const NDArray x({2, 3});
  const auto refusal = [&](size_t axis, int64_t begin, int64_t end) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { ops::Slice(x, axis, begin, end); });
  };
  EXPECT_THAT(refusal(2, 0, 1), HasSubstr("no axis 2 in [2, 3]"));
  for (const auto& [begin, end] : {std::pair(-1, 1), {0, 4}, {2, 1}})
    EXPECT_THAT(refusal(1, begin, end), HasSubstr("is no part of axis 1 of [2, 3]"));
  EXPECT_EQ(ops::Slice(x, 1, 2, 2).shape(), Shape({2, 0}));
}

}  // namespace
}  // namespace sluice::autograd
