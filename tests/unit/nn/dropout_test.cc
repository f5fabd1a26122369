// Tests dropout: masks are what Philox says for seed, step, layer and sample, however a batch is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "base/philox.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using ::testing::HasSubstr;

NDArray Ones(const Shape& shape, Context context = cpu(0)) {
  NDArray x(shape, context);
  x.Fill(1);
  return x;
}

Dropout Named(const std::string& name, double rate = 0.5) {
  Dropout layer(rate);
  layer.AddPrefix(name);
  return layer;
}

// What is left of ones.
std::vector<float> Mask(Dropout& layer, const Shape& shape, const autograd::RecordOptions& options,
                        uint64_t first_sample = 0, Context context = cpu(0)) {
  const autograd::RecordScope record(options);
  const autograd::SampleScope samples(first_sample);
  return layer(Ones(shape, context)).ToVector();
}

TEST(DropoutTest, DropsWhatPhiloxSays) {
  Rng rng(5);
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 3, 5, 5}, Shape{5}, Shape{1, 200}, Shape{0, 4}}) {
    const double rate = rng.Uniform(0, 0.9);
    const uint64_t key = rng.Next(), first = rng.Next();
    const Tensor x = Random(shape, &rng), head = Random(shape, &rng);
    NDArray input = reference::ToNDArray(x), y;
    autograd::AttachGrad(input);
    {
      const autograd::RecordScope record;
      y = ops::Dropout(input, rate, key, first);
    }
    Tensor expected(shape), gradient(shape);
    const int64_t columns = shape[0] == 0 ? 0 : shape.size() / shape[0];
    for (int64_t i = 0; i < shape.size(); ++i) {
      const auto sample = first + static_cast<uint64_t>(i / columns),
                 column = static_cast<uint64_t>(i % columns);
      const auto words = Philox({static_cast<uint32_t>(column / 4), 0, static_cast<uint32_t>(sample),
                                 static_cast<uint32_t>(sample >> 32)},
                                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
      const double factor = words[column % 4] < rate * 0x1p32 ? 0 : 1 / (1 - rate);
      expected.at(i) = factor * x.at(i);
      gradient.at(i) = factor * head.at(i);
    }
    reference::ExpectClose(y, expected);
    autograd::Backward({y}, {reference::ToNDArray(head)});
    reference::ExpectClose(autograd::Grad(input), gradient);
  }
}

TEST(DropoutTest, KeepsTheMeanAndDropsItsShare) {
  for (const double rate : {0.1, 0.5, 0.8}) {
    Dropout layer = Named("drop", rate);
    constexpr double kCount = 200 * 1000;
    double dropped = 0, sum = 0;
    for (const float value : Mask(layer, {200, 1000}, {.seed = 3, .step = 4})) {
      dropped += value == 0;
      sum += value;
    }
    const double deviation = std::sqrt(rate * (1 - rate) / kCount);
    EXPECT_NEAR(dropped / kCount, rate, 5 * deviation);
    EXPECT_NEAR(sum / kCount, 1, 5 * deviation / (1 - rate));
  }
}

TEST(DropoutTest, MasksDependOnSeedStepLayerAndSample) {
  Dropout a = Named("a"), b = Named("b");
  const Shape shape = {4, 50};
  const std::vector<float> mask = Mask(a, shape, {.seed = 1, .step = 2});
  EXPECT_EQ(Mask(a, shape, {.seed = 1, .step = 2}), mask);
  EXPECT_NE(Mask(a, shape, {.seed = 2, .step = 2}), mask);
  EXPECT_NE(Mask(a, shape, {.seed = 1, .step = 3}), mask);
  EXPECT_NE(Mask(b, shape, {.seed = 1, .step = 2}), mask);
  EXPECT_NE(Mask(a, shape, {.seed = 1, .step = 2}, 4), mask);
}

// However a batch is cut over contexts, each sample loses the same elements.
TEST(DropoutTest, CutsOfABatchDropWhatTheWholeDoes) {
  Dropout layer = Named("drop");
  const std::vector<float> whole = Mask(layer, {10, 3, 7}, {.seed = 9, .step = 1});
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{3, 3, 4}, {1, 9}, {5, 5}}) {
    std::vector<float> joined;
    int64_t first = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<float> part = Mask(layer, {sizes[i], 3, 7}, {.seed = 9, .step = 1},
                                           static_cast<uint64_t>(first), cpu(static_cast<int>(i)));
      joined.insert(joined.end(), part.begin(), part.end());
      first += sizes[i];
    }
    EXPECT_EQ(joined, whole);
  }
}

TEST(DropoutTest, EveryUnnamedStepIsAnother) {
  Dropout layer = Named("drop");
  const auto mask = [&] {
    const autograd::RecordScope record;
    return layer(Ones({2, 100})).ToVector();
  };
  const std::vector<float> first = mask();
  EXPECT_NE(mask(), first);
}

TEST(DropoutTest, ScopesInsideANamedStepDrawFromIt) {
  Dropout layer = Named("drop");
  const std::vector<float> expected = Mask(layer, {2, 100}, {.seed = 4, .step = 5});
  const autograd::RecordScope record({.seed = 4, .step = 5});
  const autograd::PauseScope pause;
  EXPECT_EQ(layer(Ones({2, 100})).ToVector(), std::vector<float>(200, 1));  // not training
  const autograd::RecordScope again;
  EXPECT_EQ(layer(Ones({2, 100})).ToVector(), expected);
}

TEST(DropoutTest, IsTheIdentityOutsideTraining) {
  Dropout layer(0.9);
  const NDArray x = Ones({3, 3});
  EXPECT_TRUE(layer(x).SharesStorage(x));
  const autograd::RecordScope record(/*training=*/false);
  EXPECT_TRUE(layer(x).SharesStorage(x));
  const autograd::RecordScope training;
  EXPECT_TRUE(Dropout(0)(x).SharesStorage(x));
}

TEST(DropoutTest, Refusals) {
  EXPECT_THAT(MessageOf([] { Dropout(1); }), HasSubstr("the rate is 1; it must be at least 0 and below 1"));
  EXPECT_THAT(MessageOf([] { Dropout(-0.1); }), HasSubstr("the rate is -0.1"));
  EXPECT_THAT(MessageOf([] { Dropout(NAN); }), HasSubstr("the rate is nan"));
  EXPECT_THAT(MessageOf([] { Named("drop")(NDArray(Shape{})); }), HasSubstr("drop (Dropout) expects input"));
}

}  // namespace
}  // namespace sluice::nn
