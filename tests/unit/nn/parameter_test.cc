// Tests Parameter and ParameterDict: values on every context, deferred shapes, gradients, and errors that
// name the parameter.
#include "sluice/parameter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"

namespace sluice::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParameterTest, OneThatNoMemoryHoldsIsNamed) {
  std::vector<int64_t> sizes = {int64_t{1} << 56};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose operator new ends the process
  sizes.push_back(int64_t{1} << 40);
#endif
  for (const int64_t vocabulary : sizes) {
    Sequential net;
    net.Add("words", Embedding(vocabulary, 64));
    EXPECT_THAT(ErrorOf(ErrorCode::kResourceExhausted, [&] { net.CollectParams().Initialize(); }),
                HasSubstr(StrCat("no memory for parameter 'words.weight' of shape [", vocabulary, ", 64]")));
  }
}

TEST(ParameterTest, EveryContextHoldsTheSameValues) {
  Parameter weight("w", {30, 40});
  weight.Initialize({cpu(0), cpu(1), cpu(2)}, std::make_shared<Normal>(), 3);
  const std::vector<float> expected = Normal().Values("w", {30, 40}, 3);
  ASSERT_EQ(weight.list_data().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(weight.list_data()[static_cast<size_t>(i)].context(), cpu(i));
    EXPECT_EQ(weight.data(cpu(i)).ToVector(), expected);
  }
  EXPECT_FALSE(weight.data(cpu(0)).SharesStorage(weight.data(cpu(1))));
}

TEST(ParameterTest, ValuesDoNotDependOnTheContextList) {
  Parameter one("w", {8, 8}), two("w", {8, 8});
  one.Initialize({cpu(0)}, nullptr, 5);
  two.Initialize({cpu(1), cpu(0)}, nullptr, 5);
  EXPECT_EQ(one.data(cpu(0)).ToVector(), two.data(cpu(0)).ToVector());
  EXPECT_EQ(two.list_ctx().front(), cpu(1));
}

TEST(ParameterTest, AContextListedTwiceHoldsOneArray) {
  Parameter weight("w", {2, 2});
  weight.Initialize({cpu(0), cpu(1), cpu(0)});
  EXPECT_THAT(weight.list_ctx(), ElementsAre(cpu(0), cpu(1)));
  EXPECT_EQ(weight.list_grad().size(), 2u);
}

TEST(ParameterTest, ADeferredShapeIsFilledLater) {
  Parameter weight("fc1.weight", {5, 0});
  weight.Initialize({cpu(0), cpu(1)}, nullptr, 1);
  EXPECT_TRUE(weight.deferred());
  const std::string message = ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight.data(cpu(0)); });
  EXPECT_THAT(message, HasSubstr("'fc1.weight' has shape [5, 0]"));
  EXPECT_THAT(message, HasSubstr("first forward"));
  weight.SetShape({5, 7});
  EXPECT_FALSE(weight.deferred());
  EXPECT_EQ(weight.data(cpu(1)).ToVector(), Xavier().Values("fc1.weight", {5, 7}, 1));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        weight.SetShape({5, 8});
                      }),
              HasSubstr("'fc1.weight' has shape [5, 7] (0: unknown) and was given [5, 8]"));
}

TEST(ParameterTest, WhoWaitsForTheArraysIsToldOnceUnlessItIsGone) {
  using Callback = std::function<void()>;
  Parameter weight("w", {2, 0});
  weight.Initialize({cpu(0)}, std::make_shared<Constant>(3));
  std::vector<float> seen;
  int told = 0;
  const auto look = std::make_shared<const Callback>([&] { seen = weight.data(cpu(0)).ToVector(); });
  const auto count = std::make_shared<const Callback>([&] { ++told; });
  weight.WhenInitialized(look);
  weight.WhenInitialized(count);
  weight.WhenInitialized(std::make_shared<const Callback>([] { FAIL() << "its owner is gone"; }));
  weight.SetShape({2, 1});
  EXPECT_THAT(seen, ElementsAre(3, 3));
  weight.Reinitialize({cpu(0)});
  EXPECT_EQ(told, 1);
  weight.WhenInitialized(count);  // the arrays exist
  EXPECT_EQ(told, 2);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { weight.WhenInitialized(nullptr); }),
              HasSubstr("'w': WhenInitialized was given no function"));
  EXPECT_THROW(weight.WhenInitialized(std::make_shared<const Callback>()), Error);
}

TEST(ParameterTest, WhoWaitsForTheArraysFindsWhatWasSet) {
  using Callback = std::function<void()>;
  Parameter weight("w", {2, 0});
  weight.Initialize({cpu(0), cpu(1)}, std::make_shared<Constant>(3));
  std::vector<float> seen;
  const auto look = std::make_shared<const Callback>([&] { seen = weight.data(cpu(1)).ToVector(); });
  weight.WhenInitialized(look);
  weight.SetData(NDArray::From({5, 7}, {2, 1}));
  EXPECT_THAT(seen, ElementsAre(5, 7));
}

TEST(ParameterTest, OneWhoseCallbackThrowsDoesNotKeepItFromOthers) {
  using Callback = std::function<void()>;
  Parameter weight("w", {2, 0});
  weight.Initialize({cpu(0)});
  int told = 0;
  const auto fail = std::make_shared<const Callback>([] { throw std::runtime_error("first"); });
  const auto count = std::make_shared<const Callback>([&] { ++told; });
  const auto fail_too = std::make_shared<const Callback>([] { throw std::runtime_error("second"); });
  for (const auto& callback : {fail, count, fail_too}) weight.WhenInitialized(callback);
  try {
    weight.SetShape({2, 1});
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_EQ(told, 1);
}

TEST(ParameterTest, SetDataReachesEveryContextAndFillsADeferredShape) {
  Parameter weight("w", {2, 0});
  weight.Initialize({cpu(0), cpu(1)});
  weight.SetData(NDArray::From({1, 2, 3, 4}, {2, 2}));
  EXPECT_EQ(weight.shape(), (Shape{2, 2}));
  EXPECT_THAT(weight.data(cpu(1)).ToVector(), ElementsAre(1, 2, 3, 4));
  EXPECT_THROW(weight.SetData(NDArray({3, 2})), Error);
  EXPECT_THROW(Parameter("v", {2}).SetData(NDArray({2})), Error);
}

TEST(ParameterTest, GradientsAreThereAndCanBeZeroedOrRefused) {
  Parameter weight("w", {2, 2});
  weight.Initialize({cpu(0)});
  NDArray y;
  {
    autograd::RecordScope record;
    y = weight.data(cpu(0)) * 3.0f;
  }
  autograd::Backward({y});
  EXPECT_THAT(weight.grad(cpu(0)).ToVector(), Each(3));
  weight.ZeroGrad();
  EXPECT_THAT(weight.grad(cpu(0)).ToVector(), Each(0));
  weight.SetGradReq(autograd::GradReq::kNull);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight.grad(cpu(0)); }),
              HasSubstr("'w' has no gradient"));
}

TEST(ParameterTest, AddUpGradientsWhenAsked) {
  Parameter weight("w", {2, 2}, {.grad_req = autograd::GradReq::kAdd});
  weight.Initialize({cpu(0)});
  for (int i = 0; i < 3; ++i) {
    NDArray y;
    {
      autograd::RecordScope record;
      y = weight.data(cpu(0)) * 2.0f;
    }
    autograd::Backward({y});
  }
  EXPECT_THAT(weight.grad(cpu(0)).ToVector(), Each(6));
}

TEST(ParameterTest, SaysWhereItIsAndWhatIsMissing) {
  Parameter weight("w", {2, 2});
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight.data(cpu(0)); }),
              HasSubstr("call Initialize first"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { weight.Initialize({}); }), HasSubstr("no context"));
  weight.Initialize({cpu(0), cpu(1)});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { weight.data(cpu(2)); }),
              HasSubstr("'w' is not on cpu(2); it was initialised on cpu(0), cpu(1)"));
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight.Initialize({cpu(0)}); }),
              HasSubstr("Reinitialize"));
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight.SetName("v"); }),
              HasSubstr("cannot become 'v'"));
  weight.Reinitialize({cpu(2)});
  EXPECT_EQ(weight.data(cpu(2)).size(), 4);
}

TEST(ParameterTest, ADictInitialisesAllOrNone) {
  Sequential net;
  net.Add("fc1", Dense(3, {.in_units = 2})).Add("fc2", Dense(1, {.in_units = 3}));
  const ParameterDict parameters = net.CollectParams();
  parameters["fc2.bias"].Initialize({cpu(0)});
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition,
                      [&] {
                        parameters.Initialize({cpu(0), cpu(1)});
                      }),
              HasSubstr("'fc2.bias' is initialised already on cpu(0)"));
  EXPECT_FALSE(parameters["fc1.weight"].initialized());
}

TEST(ParameterTest, AFailedInitialiserLeavesItUninitialised) {
  Parameter gamma("gamma", {4});
  EXPECT_THROW(gamma.Initialize({cpu(0)}), Error);  // Xavier needs two axes
  gamma.Initialize({cpu(0)}, std::make_shared<One>());
  EXPECT_THAT(gamma.data(cpu(0)).ToVector(), Each(1));
}

TEST(ParameterTest, StoresSixteenBits) {
  Parameter weight("w", {4}, {.dtype = DType::kFloat16, .init = std::make_shared<Constant>(0.5)});
  weight.Initialize({cpu(0)});
  EXPECT_EQ(weight.data(cpu(0)).dtype(), DType::kFloat16);
  for (const Half& value : weight.data(cpu(0)).ToVector<Half>()) EXPECT_EQ(value.bits, 0x3800);
}

TEST(ParameterDictTest, KeepsOrderAndFindsByName) {
  ParameterDict parameters;
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { parameters["c"]; }), HasSubstr("'c'; there are none"));
  const auto b = std::make_shared<Parameter>("b", Shape{1});
  parameters.Add(b);
  parameters.Add(std::make_shared<Parameter>("a", Shape{2}));
  EXPECT_THAT(parameters.names(), ElementsAre("b", "a"));
  EXPECT_EQ(&parameters["b"], b.get());
  EXPECT_EQ(parameters.Find("c"), nullptr);
  EXPECT_THAT(ErrorOf(ErrorCode::kNotFound, [&] { parameters["c"]; }), HasSubstr("'c'; there are b, a"));
  parameters.Add(b);  // shared by two layers
  EXPECT_EQ(parameters.size(), 2u);
  EXPECT_THAT(
      ErrorOf(ErrorCode::kAlreadyExists, [&] { parameters.Add(std::make_shared<Parameter>("b", Shape{1})); }),
      HasSubstr("two parameters are called 'b'"));
  EXPECT_EQ(parameters.size(), 2u);
}

}  // namespace
}  // namespace sluice::nn
