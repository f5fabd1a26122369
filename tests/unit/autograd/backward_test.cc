// What Backward leaves in the gradients, and what the scopes record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "unit/expect_error.h"

namespace sluice::autograd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

NDArray Variable(std::initializer_list<float> values, GradReq req = GradReq::kWrite,
                 Context context = cpu(0)) {
  NDArray array = NDArray::From(values, {static_cast<int64_t>(values.size())}, context);
  AttachGrad(array, req);
  return array;
}

template <typename F>
NDArray Recorded(F&& f) {
  const RecordScope record;
  return f();
}

TEST(ScopeTest, NestAndRestore) {
  EXPECT_FALSE(IsRecording());
  EXPECT_FALSE(IsTraining());
  {
    const RecordScope record;
    EXPECT_TRUE(IsRecording());
    EXPECT_TRUE(IsTraining());
    {
      const PauseScope pause;
      EXPECT_FALSE(IsRecording());
      EXPECT_FALSE(IsTraining());
      {
        const RecordScope predict(false);
        EXPECT_TRUE(IsRecording());
        EXPECT_FALSE(IsTraining());
        const PauseScope training(true);
        EXPECT_FALSE(IsRecording());
        EXPECT_TRUE(IsTraining());
      }
      EXPECT_FALSE(IsRecording());
    }
    EXPECT_TRUE(IsRecording());
    EXPECT_TRUE(IsTraining());
    std::thread([] { EXPECT_FALSE(IsRecording()); }).join();
  }
  EXPECT_FALSE(IsRecording());
  EXPECT_FALSE(IsTraining());
}

TEST(ScopeTest, RestoreWhenAnErrorPasses) {
  EXPECT_THROW(Recorded([] { return NDArray({2}) + NDArray({3}); }), Error);
  EXPECT_FALSE(IsRecording());
}

TEST(ScopeTest, PausedWorkIsAConstant) {
  const NDArray x = Variable({3});
  NDArray y;
  {
    const RecordScope record;
    NDArray square;
    {
      const PauseScope pause;
      square = x * x;
    }
    y = square * x;
  }
  Backward({y});
  EXPECT_THAT(Grad(x).ToVector(), ElementsAre(9));  // and not 27
}

TEST(BackwardTest, WriteReplacesAndAddAdds) {
  const NDArray w = Variable({1, 2}), a = Variable({1, 2}, GradReq::kAdd);
  for (int pass = 1; pass <= 3; ++pass) {
    Backward({Recorded([&] { return w * 3 + a * 5; })});
    EXPECT_THAT(Grad(w).ToVector(), Each(3));
    EXPECT_THAT(Grad(a).ToVector(), Each(5 * pass));
    EXPECT_EQ(GradVersion(w), static_cast<uint64_t>(pass));
  }
  Grad(a).Fill(0);
  Backward({Recorded([&] { return a * a; })});
  EXPECT_THAT(Grad(a).ToVector(), ElementsAre(2, 4));
}

TEST(BackwardTest, AddsToWhatTheCallerPutThere) {
  const NDArray a = Variable({1, 2}, GradReq::kAdd);
  Grad(a).Fill(100);
  Backward({Recorded([&] { return a * 5; })});
  EXPECT_THAT(Grad(a).ToVector(), Each(105));
}

TEST(BackwardTest, NullWantsNoGradient) {
  NDArray x = Variable({1}, GradReq::kNull);
  const NDArray y = Variable({2});
  Backward({Recorded([&] { return x * y; })});
  EXPECT_THAT(Grad(y).ToVector(), ElementsAre(1));
  ErrorOf(ErrorCode::kFailedPrecondition, [&] { Grad(x); });
}

TEST(BackwardTest, AVariableThatIsNotReachedKeepsItsGradient) {
  const NDArray x = Variable({1}), other = Variable({1});
  Backward({Recorded([&] { return other * 7; })});
  Backward({Recorded([&] { return x * 2; })});
  EXPECT_THAT(Grad(other).ToVector(), ElementsAre(7));
  EXPECT_EQ(GradVersion(other), 1u);
  EXPECT_EQ(GradVersion(x), 1u);
}

TEST(BackwardTest, SumsOverHeadsWithTheirWeights) {
  const NDArray x = Variable({2, 3});
  NDArray y, z;
  {
    const RecordScope record;
    y = x * x;
    z = y * x;  // y is a head and inside z's graph
  }
  Backward({y, z, x}, {NDArray::From({1, 10}, {2}), NDArray(), NDArray::From({100, 200}, {2})});
  // w 2x + 3x^2 + v
  EXPECT_THAT(Grad(x).ToVector(), ElementsAre(4 + 12 + 100, 60 + 27 + 200));
}

TEST(BackwardTest, TheSameHeadTwiceCountsTwice) {
  const NDArray x = Variable({5});
  const NDArray y = Recorded([&] { return x * x; });
  Backward({y, y});
  EXPECT_THAT(Grad(x).ToVector(), ElementsAre(20));
}

TEST(BackwardTest, HeadsOnSeveralContexts) {
  std::vector<NDArray> xs, heads;
  for (int i = 0; i < 3; ++i) xs.push_back(Variable({1, 2, 3}, GradReq::kWrite, cpu(i)));
  {
    const RecordScope record;
    for (const NDArray& x : xs) heads.push_back(x * x * static_cast<float>(x.context().id + 1));
  }
  Backward(heads);
  for (int i = 0; i < 3; ++i) {
    const NDArray gradient = Grad(xs[static_cast<size_t>(i)]);
    const auto factor = static_cast<float>(2 * (i + 1));
    EXPECT_EQ(gradient.context(), cpu(i));
    EXPECT_THAT(gradient.ToVector(), ElementsAre(factor, 2 * factor, 3 * factor));
  }
}

TEST(BackwardTest, ThreadsHaveTapesOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<float> gradients(4);
  for (size_t t = 0; t < gradients.size(); ++t) {
    threads.emplace_back([&, t] {
      const NDArray x = Variable({static_cast<float>(t)}, GradReq::kWrite, cpu(static_cast<int>(t % 2)));
      for (int i = 0; i < 50; ++i) Backward({Recorded([&] { return x * x; })});
      gradients[t] = Grad(x).ToScalar();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(gradients, ElementsAre(0, 2, 4, 6));
}

}  // namespace
}  // namespace sluice::autograd
