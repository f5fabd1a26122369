// The first lines that people write who come from NumPy, MXNet or PyTorch: that they compile, with one
// header, and mean what they say. Arguments are of the types that such programs have at hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "sluice/sluice.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Printed(const NDArray& array) {
  std::ostringstream out;
  out << array;
  return out.str();
}

TEST(FirstLinesTest, ArraysOfWhatAProgramHas) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<float> constant = values;
  const size_t rows = 2;
  for (const NDArray& x :
       {NDArray::From(values, {2, 3}), NDArray::From(constant, {2, 3}),
        NDArray::From(std::span(values), {2, 3}), NDArray::From(std::span(constant), {2, 3}),
        NDArray::From(values, {rows, values.size() / rows}), NDArray::From(values, {rows, 3}, cpu(1)),
        NDArray::From({1, 2, 3, 4, 5, 6}, {2, 3})}) {
    EXPECT_EQ(x.shape(), Shape({2, 3}));
    EXPECT_EQ(x.ToVector(), values);
  }
  std::array<float, 2> pair = {1, 2};
  float raw[] = {3, 4};
  double a = 0.5, b = 1.5;
  EXPECT_THAT(NDArray::From(pair, {2}).ToVector(), ElementsAre(1, 2));
  EXPECT_THAT(NDArray::From(raw, {2}).ToVector(), ElementsAre(3, 4));
  EXPECT_THAT(NDArray::From({a, b}, {2}).ToVector(), ElementsAre(0.5, 1.5));
  EXPECT_THAT(NDArray::From({1, 2.5}, {2}).ToVector(), ElementsAre(1, 2.5));
  EXPECT_EQ(NDArray::From(values).shape(), Shape({6}));
  EXPECT_THAT(NDArray::From({1, 2, 3}).ToVector(), ElementsAre(1, 2, 3));
  EXPECT_THAT(NDArray::From({0.5, 2.5}).ToVector(), ElementsAre(0.5, 2.5));
  EXPECT_THAT(NDArray::From({1, 2.5}).ToVector(), ElementsAre(1, 2.5));
  EXPECT_THAT(NDArray::From({1.5f, 2}).ToVector(), ElementsAre(1.5, 2));
  EXPECT_THAT(NDArray::From({a, 0.25f}, {2}).ToVector(), ElementsAre(0.5, 0.25));

  std::vector<int64_t> ids = {7, 8};
  std::vector<double> doubles = {0.25};
  EXPECT_THAT(NDArray::From(ids, {2}).ToVector<int64_t>(), ElementsAre(7, 8));
  EXPECT_EQ(NDArray::From(doubles, {1}).dtype(), DType::kFloat64);
  EXPECT_THAT(NDArray({rows, 3}).ToVector(), Each(0));
}

TEST(FirstLinesTest, ShapesOfAnyIntegers) {
  const size_t rows = 2;
  const int columns = 3;
  const uint8_t planes = 4;
  EXPECT_EQ(Shape({rows, columns, planes}), Shape({2, 3, 4}));
  EXPECT_THROW(Shape({UINT64_MAX, 2}), Error);
  EXPECT_THROW(Shape({rows, -1}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST(FirstLinesTest, ArithmeticWithNumbersOnEitherSide) {
  NDArray x = NDArray::From({1, 2, 4}, {3}), y = NDArray::From({2, 4, 8}, {3});
  EXPECT_THAT((x / 2).ToVector(), ElementsAre(0.5, 1, 2));
  EXPECT_THAT((x / 3).ToVector(),
              ElementsAre(1 / 3.f, 2 / 3.f, 4 / 3.f));  // divided, not multiplied by 1 / 3
  EXPECT_THAT((1 - x).ToVector(), ElementsAre(0, -1, -3));
  EXPECT_THAT((1 + x).ToVector(), ElementsAre(2, 3, 5));
  EXPECT_THAT((x - 0.5).ToVector(), ElementsAre(0.5, 1.5, 3.5));
  EXPECT_THAT((2 * x + 1).ToVector(), ElementsAre(3, 5, 9));
  EXPECT_THAT((8 / x).ToVector(), ElementsAre(8, 4, 2));
  EXPECT_THAT((y / x).ToVector(), ElementsAre(2, 2, 2));
  EXPECT_THAT((-x).ToVector(), ElementsAre(-1, -2, -4));
  EXPECT_THAT((1 / (x - 1)).ToVector()[0], std::numeric_limits<float>::infinity());
  x += 1;
  x *= 2;
  x -= 3;
  x /= 2;
  EXPECT_THAT(x.ToVector(), ElementsAre(0.5, 1.5, 3.5));
  x += y;
  x *= y;
  x /= y;
  x -= y;
  EXPECT_THAT(x.ToVector(), ElementsAre(0.5, 1.5, 3.5));
}

// d/dx and d/dy by hand.
TEST(FirstLinesTest, ArithmeticIsDifferentiable) {
  const auto gradient = [](const std::function<NDArray(const NDArray&)>& f) {
    NDArray x = NDArray::From({1, 2, 4}, {3});
    autograd::AttachGrad(x);
    NDArray y;
    {
      autograd::RecordScope record;
      y = f(x);
    }
    autograd::Backward(y);
    return autograd::Grad(x).ToVector();
  };
  const NDArray c = NDArray::From({2, 4, 8}, {3});
  EXPECT_THAT(gradient([](const NDArray& x) { return x / 2; }), Each(0.5));
  EXPECT_THAT(gradient([](const NDArray& x) { return 1 - x; }), Each(-1));
  EXPECT_THAT(gradient([](const NDArray& x) { return 1 + x; }), Each(1));
  EXPECT_THAT(gradient([](const NDArray& x) { return x - 1; }), Each(1));
  EXPECT_THAT(gradient([](const NDArray& x) { return 2 * x; }), Each(2));
  EXPECT_THAT(gradient([](const NDArray& x) { return 8 / x; }), ElementsAre(-8, -2, -0.5));  // -8 / x^2
  EXPECT_THAT(gradient([&](const NDArray& x) { return x / c; }), ElementsAre(0.5, 0.25, 0.125));
  EXPECT_THAT(gradient([&](const NDArray& x) { return c / x; }), ElementsAre(-2, -1, -0.5));  // -c / x^2
  EXPECT_THAT(gradient([&](const NDArray& x) { return x / x; }), Each(0));
  EXPECT_THAT(gradient([&](const NDArray& x) { return (x - 1) / (1 + x); }),  // 2 / (1 + x)^2
              ElementsAre(0.5, ::testing::FloatNear(2 / 9.f, 1e-6f), ::testing::FloatNear(2 / 25.f, 1e-6f)));
}

TEST(FirstLinesTest, ArraysArePrinted) {
  EXPECT_EQ(Printed(NDArray::From({1, 2.5, 3, 4}, {2, 2})), "[[1, 2.5], [3, 4]] float32 [2, 2] on cpu(0)");
  EXPECT_EQ(Printed(NDArray::From(std::vector<uint8_t>{65, 66}, {2}, cpu(1))),
            "[65, 66] uint8 [2] on cpu(1)");
  EXPECT_EQ(Printed(NDArray::From({1.5}, {1}).AsType(DType::kBFloat16)), "[1.5] bfloat16 [1] on cpu(0)");
  EXPECT_EQ(Printed(NDArray({1001})), "[0, 0, 0, ..., 0, 0, 0] float32 [1001] on cpu(0)");
  EXPECT_EQ(Printed(NDArray({0, 2})), "[] float32 [0, 2] on cpu(0)");
  EXPECT_EQ(Printed(NDArray()), "no array");
}

TEST(FirstLinesTest, KeysOfAnyIntegerAndText) {
  const auto names = KVStore::Create("local"), numbers = KVStore::Create("local");
  const NDArray x = NDArray::From({1, 2}, {2});
  const std::string text = "b";
  const std::string_view view = "c";
  const char* const pointer = "d";
  names->Init("a", x);
  names->Init(text, x);
  names->Init(view, x);
  names->Init(pointer, x);
  const size_t i = 1;
  const unsigned long long large = 2;
  const short small = 3;
  numbers->Init(0, x);
  numbers->Init(i, x);
  numbers->Init(large, x);
  numbers->Init(small, x);
  NDArray out({2});
  for (const char* name : {"a", "b", "c", "d"}) names->Pull(name, &out);
  for (size_t number = 0; number < 4; ++number) numbers->Pull(number, &out);
  EXPECT_THAT(out.ToVector(), ElementsAre(1, 2));
  EXPECT_THROW(numbers->Init(UINT64_MAX, x), Error);
  EXPECT_THROW(names->Init(static_cast<const char*>(nullptr), x), Error);
}

// What is silently another key does not compile.
template <typename T>
concept IsKey = requires(KVStore& store, T key, NDArray x) {
  store.Init(key, x);
};
enum PlainKeys { kPlainKey = 7 };
enum class StrictKeys { kStrictKey };
enum ByteKeys : char { kByteKey = 'a' };
enum BoolKeys : bool { kBoolKey = true };
static_assert(IsKey<PlainKeys> && !IsKey<StrictKeys>);
static_assert(IsKey<int> && IsKey<size_t> && IsKey<uint8_t> && IsKey<const char*> && IsKey<std::string>);
static_assert(!IsKey<bool> && !IsKey<char> && !IsKey<double> && !IsKey<std::nullptr_t> && !IsKey<int*>);

TEST(FirstLinesTest, KeysOfPlainEnumsWhateverTheirType) {
  EXPECT_EQ(Key(kPlainKey), Key(7));
  EXPECT_EQ(Key(kByteKey), Key(97));
  EXPECT_EQ(Key(kBoolKey), Key(1));
}

TEST(FirstLinesTest, ArraysOfOtherIntegersTypesAndShapes) {
  const std::vector<size_t> sizes = {7, 8};
  EXPECT_THAT(NDArray::From(sizes).ToVector<int64_t>(), ElementsAre(7, 8));
  EXPECT_THAT(NDArray::From(std::vector<int8_t>{-1, 2}, {2, 1}).ToVector<int64_t>(), ElementsAre(-1, 2));
  EXPECT_EQ(NDArray::From(std::vector<uint16_t>{1}, {1}, cpu(1)).context(), cpu(1));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { NDArray::From(std::vector<uint64_t>{UINT64_MAX}); }),
              HasSubstr("18446744073709551615 is beyond int64"));
  EXPECT_EQ(NDArray({2, 3}, DType::kFloat16).dtype(), DType::kFloat16);
  EXPECT_EQ(Shape(sizes), Shape({7, 8}));
  EXPECT_EQ(NDArray(Shape(std::vector<int>{1, 2})).shape(), Shape({1, 2}));
  EXPECT_THROW(Shape(std::vector<int>(9, 1)), Error);
  EXPECT_THROW(Shape(std::vector<size_t>{SIZE_MAX}), Error);
  std::ostringstream out;
  out << DType::kBFloat16 << " " << Shape({2}) << " " << cpu(1);
  EXPECT_EQ(out.str(), "bfloat16 [2] cpu(1)");
}

TEST(FirstLinesTest, CopiesAndConversions) {
  const NDArray x = NDArray::From({1.5, 2}, {2});
  NDArray y({2});
  x.CopyTo(y);
  EXPECT_THAT(y.ToVector(), ElementsAre(1.5, 2));
  const NDArray labels = NDArray::From(std::vector<int32_t>{3, -16777217}, {2});
  EXPECT_THAT(labels.AsType(DType::kFloat32).ToVector(), ElementsAre(3, -16777216));
  EXPECT_THAT(NDArray::From(std::vector<uint8_t>{255}).AsType(DType::kFloat32).ToVector(), ElementsAre(255));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { labels.AsType(DType::kFloat64); }),
              HasSubstr("int32 does not convert to float64"));
}

TEST(FirstLinesTest, RowsOfATable) {
  const auto kv = KVStore::Create("local");
  kv->InitRowSparse("table", {10, 2});
  const NDArray ids = NDArray::From(std::vector<int64_t>{3, 7}, {2});
  kv->PushRowSparse("table", {ids, NDArray::From({1, 2, 3, 4}, {2, 2})});
  NDArray rows({2, 2});
  kv->RowSparsePull("table", ids, rows);
  EXPECT_THAT(rows.ToVector(), ElementsAre(1, 2, 3, 4));
  kv->RowSparsePull("table", ids, &rows);
}

// Fields that may be left unset are numbers all the same, and what is made of an unset one is refused.
TEST(FirstLinesTest, AnOptimizersFieldsAreNumbers) {
  OptimizerConfig config{.learning_rate = 0.5, .momentum = 1 / 2.};
  config.learning_rate *= 0.5;
  config.momentum = std::max(config.momentum, 0.75);
  double& rate = config.learning_rate;
  EXPECT_EQ(rate > 1 ? 1 : rate, 0.25);
  double OptimizerConfig::*field = &OptimizerConfig::momentum;
  EXPECT_EQ(config.*field, 0.75);
  for (const double number : {config.learning_rate, config.momentum, config.wd}) EXPECT_GE(number, 0);

  EXPECT_EQ(config.epsilon, kUnset);
  EXPECT_EQ(Resolved(config).epsilon, 1e-8);
  EXPECT_EQ(InvalidReason(config), "");
  for (const double scale : {0.5, 8.0, 1e50}) {
    OptimizerConfig scaled;
    scaled.learning_rate *= scale;
    EXPECT_THAT(InvalidReason(scaled), ::testing::HasSubstr("learning_rate is -")) << scale;
    EXPECT_THAT(InvalidReason(scaled), ::testing::HasSubstr("a field that is not set")) << scale;
  }
}

// One step on two devices: w -= 0.5 (g0 + g1) / 4, whoever updates.
TEST(FirstLinesTest, ATrainerWithoutAStoreSumsOverDevices) {
  for (const bool update_on_kvstore : {true, false}) {
    SCOPED_TRACE(update_on_kvstore);
    const std::vector<Context> contexts = {cpu(0), cpu(1)};
    nn::ParameterDict parameters;
    parameters.Add(std::make_shared<nn::Parameter>("w", Shape{2}));
    parameters.Initialize(contexts, std::make_shared<nn::One>());
    Trainer trainer(parameters, {.learning_rate = 0.5}, nullptr, {.update_on_kvstore = update_on_kvstore});
    EXPECT_EQ(trainer.store().num_workers(), 1);
    std::vector<NDArray> losses;
    {
      autograd::RecordScope record;
      for (const Context& context : contexts)
        losses.push_back(parameters["w"].data(context) * (context == cpu(0) ? 1 : 3));
    }
    autograd::Backward(losses);
    trainer.Step(4);
    for (const Context& context : contexts)
      EXPECT_THAT(parameters["w"].data(context).ToVector(), Each(1 - 0.5f * (1 + 3) / 4));
  }
}

TEST(FirstLinesTest, ANetworkIsTrainedWithoutAStore) {
  nn::Sequential net;
  net.Add(nn::Dense(8)).Add(nn::Activation::Relu()).Add(nn::Dense(1));
  net.CollectParams().Initialize();
  const NDArray x = NDArray::From({1, 2, 3, 4}, {4, 1}), label = 2 * x - 1;
  net(x);  // fills in the shapes
  Trainer trainer(net.CollectParams(), {.learning_rate = 0.05});
  const nn::L2Loss criterion;
  std::vector<float> losses;
  for (int step = 0; step < 50; ++step) {
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = criterion(net(x), label);
    }
    autograd::Backward(loss);
    trainer.Step(4);
    losses.push_back(ops::Mean(loss).ToScalar());
  }
  EXPECT_LT(losses.back(), losses.front() / 10);

  const std::vector<float> samples = {1, 2, 3, 4};
  const auto data = std::make_shared<ArrayDataset>(Shape{1}, samples, std::vector<int32_t>{0, 0, 1, 1});
  nn::Sequential classifier;
  classifier.Add(nn::Dense(2));
  classifier.CollectParams().Initialize();
  const FitReport report = Fit(classifier, data, data, {.learning_rate = 0.1});
  EXPECT_EQ(report.epochs, 10);
}

}  // namespace
}  // namespace sluice
