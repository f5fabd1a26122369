// What Backward needs as it was: writes that it refuses, and those that are no matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "unit/expect_error.h"

namespace sluice::autograd {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NDArray VariableOf(const Shape& shape, double value = 0.5) {
  NDArray array(shape);
  array.Fill(value);
  AttachGrad(array);
  return array;
}

NDArray RecordedResult(const std::function<NDArray()>& function) {
  const RecordScope record;
  return function();
}

void ExpectRefusal(const NDArray& head, const char* operation) {
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Backward(head); }),
              AllOf(HasSubstr(std::string("Backward: ") + operation), HasSubstr("written in place"),
                    HasSubstr("after Backward")));
}

const NDArray& Ones() {
  static const NDArray ones = NDArray::From({1, 1}, {2});
  return ones;
}

// Every way to write; none is seen at the handle that the tape has.
const std::map<std::string, std::function<void(const NDArray&)>> kWrites = {
    {"+= of Detach", [](const NDArray& array) { array.Detach() += Ones(); }},
    {"-= of Detach", [](const NDArray& array) { array.Detach() -= Ones(); }},
    {"*= of Detach", [](const NDArray& array) { array.Detach() *= 3; }},
    {"Fill", [](const NDArray& array) { NDArray(array).Fill(3); }},
    {"SetBytes",
     [](const NDArray& array) {
       const float values[] = {3, 4};
       NDArray(array).SetBytes(std::as_bytes(std::span(values)));
     }},
    {"CopyTo",
     [](const NDArray& array) {
       NDArray target = array;
       Ones().CopyTo(&target);
     }},
    {"rows of Detach", [](const NDArray& array) { array.Detach().SliceRows(1, 2).Fill(3); }},
    {"Reshape of Detach",
     [](const NDArray& array) {
       array.Detach().Reshape({2, 1}) *= 3;
     }},
};

TEST(KeptTest, EveryWayToWriteIsSeen) {
  for (const auto& [name, write] : kWrites) {
    SCOPED_TRACE(name);
    NDArray x = VariableOf({2});
    const NDArray y = RecordedResult([&] { return ops::Tanh(x); });
    write(y);
    ExpectRefusal(y, "tanh was recorded on 2 elements of float32 on cpu(0)");
    EXPECT_EQ(GradVersion(x), 0u);
    Backward(RecordedResult([&] { return x * 3.0f; }));  // x is none the worse
    EXPECT_THAT(Grad(x).ToVector(), Each(3));
  }
}

struct Kept {
  const char* operation;
  std::function<NDArray()> function;
  NDArray array;
};

// Each operation, and each of the caller's arrays that its backward reads.
std::vector<Kept> OperationsAndWhatTheyKeep() {
  const NDArray row = VariableOf({2, 3}), weight = VariableOf({4, 3}), factor = VariableOf({3}),
                image = VariableOf({1, 2, 3, 3}), filter = VariableOf({2, 2, 2, 2}), shift = VariableOf({2}),
                label({2, 3}), ids({2}), bags({2, 3}), classes({2}), words({2, 1, 3}),
                gates = VariableOf({4, 3}), state = VariableOf({4, 1}), table = VariableOf({5, 3});
  const NDArray lengths = NDArray::From({1, 1}, {2});
  const auto batch_norm = [=] {
    NDArray mean({2}), variance({2});
    return ops::BatchNorm(image, shift, shift, mean, variance, {.training = true});
  };
  const auto lstm = [=] {
    const auto result =
        ops::Lstm(words, {.i2h_weight = gates, .h2h_weight = state}, {}, {.lengths = lengths});
    return result.outputs;
  };
  return {
      {"*", [=] { return row * label; }, label},
      {"Dense", [=] { return ops::Dense(row, weight); }, row},
      {"Dense", [=] { return ops::Dense(row, weight); }, weight},
      {"Conv2D", [=] { return ops::Conv2D(image, filter, {}, {}); }, filter},
      {"Conv2DTranspose", [=] { return ops::Conv2DTranspose(image, filter, {}, {}, 1, 4, 4); }, filter},
      {"gelu", [=] { return ops::Gelu(row); }, row},
      {"BatchNorm", batch_norm, shift},
      {"LayerNorm", [=] { return ops::LayerNorm(row, factor, {}); }, row},
      {"LayerNorm", [=] { return ops::LayerNorm(row, factor, {}); }, factor},
      {"SoftmaxCrossEntropy", [=] { return ops::SoftmaxCrossEntropy(row, classes); }, classes},
      {"L2", [=] { return ops::L2(row, label); }, label},
      {"Huber", [=] { return ops::Huber(row, label); }, row},
      {"SigmoidBinaryCrossEntropy", [=] { return ops::SigmoidBinaryCrossEntropy(row, label); }, label},
      {"Embedding", [=] { return ops::Embedding(ids, table); }, ids},
      {"EmbeddingBag", [=] { return ops::EmbeddingBag(bags, table); }, bags},
      {"Lstm", lstm, state},
      {"Lstm", lstm, words},
      {"Lstm", lstm, lengths},
  };
}

TEST(KeptTest, EveryOperationNamesItself) {
  for (const Kept& kept : OperationsAndWhatTheyKeep()) {
    SCOPED_TRACE(kept.operation);
    const NDArray y = RecordedResult(kept.function);
    NDArray(kept.array).Fill(1);
    ExpectRefusal(y, kept.operation);
    Backward(RecordedResult(kept.function));
  }
  const NDArray x = VariableOf({2});
  for (const auto& [name, function] : std::map<std::string, NDArray (*)(const NDArray&)>{
           {"sigmoid", ops::Sigmoid},
           {"LogSoftmax", [](const NDArray& array) { return ops::LogSoftmax(array); }}}) {
    const NDArray y = RecordedResult([&, function = function] { return function(x); });
    y.Detach() *= 2;
    ExpectRefusal(y, name.c_str());
  }
}

// A parameter that an update writes too early, of which the gradient would be that of other weights.
TEST(KeptTest, AnUpdateBeforeBackward) {
  NDArray w = VariableOf({2});
  const NDArray y = RecordedResult([&] { return w * w; });
  w -= Ones();
  ExpectRefusal(y, "*");
}

TEST(KeptTest, WhatNoGradientNeedsMayBeWritten) {
  NDArray x = VariableOf({2}, 2), data = NDArray::From({3, 4}, {2}), sum, scaled, part, product;
  {
    const RecordScope record;
    sum = x + data;
    scaled = x * 5.0f;
    part = x.SliceRows(0, 1);
    product = x * data;  // its gradient is data's
  }
  for (NDArray array : {sum, scaled, part, product, x}) array.Detach().Fill(7);
  Backward({sum, scaled, part, product});
  EXPECT_THAT(Grad(x).ToVector(), ElementsAre(1 + 5 + 1 + 3, 1 + 5 + 4));
}

// Reading brings what lies with its channels last into rows: the same values.
TEST(KeptTest, ReadingIsNoWrite) {
  const NDArray x = VariableOf({1, 2, 2, 2}), filter = VariableOf({2, 2, 1, 1});
  NDArray y, z;
  {
    const RecordScope record;
    y = ops::Conv2D(x, filter, {}, {});
    z = ops::Tanh(y);
  }
  EXPECT_THAT(y.ToVector(), Each(0.5));
  EXPECT_THAT(z.ToVector(), Each(std::tanh(0.5f)));
  EXPECT_THAT(z.Detach().SliceRows(0, 1).ToVector(), Each(std::tanh(0.5f)));
  Backward(z);
  const float slope = 1 - std::tanh(0.5f) * std::tanh(0.5f);
  EXPECT_THAT(Grad(x).ToVector(), Each(::testing::FloatNear(slope, 1e-6)));
}

// y = w x, by steps of w -= 0.1 dy/dw of two graphs each, whose gradients add up, with x written between
// them.
TEST(KeptTest, TrainingGoesOn) {
  NDArray w = NDArray::From({1, 1}, {2}), x({2});
  AttachGrad(w, GradReq::kAdd);
  double expected = 1;
  for (int step = 0; step < 3; ++step) {
    Grad(w).Fill(0);
    for (int piece = 1; piece <= 2; ++piece) {
      x.Fill(piece);
      const NDArray y = RecordedResult([&] { return w * x * w; });
      Backward(y);
    }
    expected -= 0.1 * (2 * expected * 1 + 2 * expected * 2);
    NDArray update = Grad(w) * 0.1f;
    w -= update;
    EXPECT_THAT(w.ToVector(), Each(::testing::FloatNear(static_cast<float>(expected), 1e-6)));
  }
}

// A hook may issue the update of a weight while the rest of backward still runs.
TEST(KeptTest, AHookMayWrite) {
  NDArray first = VariableOf({2}, 2), second = VariableOf({2}, 3);
  const NDArray y = RecordedResult([&] { return first * second * second; });
  SetGradHook(second, [&] { second -= Ones(); });
  Backward(y);
  EXPECT_THAT(second.ToVector(), Each(2));
  EXPECT_THAT(Grad(first).ToVector(), Each(9));
  EXPECT_THAT(Grad(second).ToVector(), Each(12));
}

// Two forwards of one layer in one graph: the second writes the statistics that the first has written.
// What the rest of backward still needs is not its own.
TEST(KeptTest, AHookMayNotWriteWhatOthersNeed) {
  NDArray x = VariableOf({2}), w1 = VariableOf({2}), w2 = VariableOf({2});
  SetGradHook(w2, [&] { NDArray(w1).Fill(7); });
  ExpectRefusal(RecordedResult([&] { return x * w1 * w2; }), "*");
  SetGradHook(w2, nullptr);
  Backward(RecordedResult([&] { return x * w1 * w2; }));
  EXPECT_THAT(Grad(x).ToVector(), Each(3.5));  // 7 * 0.5
}

TEST(KeptTest, RunningStatisticsMayBeWritten) {
  const NDArray x = VariableOf({2, 1, 1, 2}), gamma = VariableOf({1}), beta = VariableOf({1});
  NDArray mean({1}), variance({1}), y;
  {
    const RecordScope record;
    const ops::BatchNormOptions options{.training = true};
    y = ops::BatchNorm(ops::BatchNorm(x, gamma, beta, mean, variance, options), gamma, beta, mean, variance,
                       options);
  }
  mean.Fill(5);
  Backward(y);
  EXPECT_THAT(Grad(beta).ToVector(), ElementsAre(4));  // the second normalisation hides the first one's
}

}  // namespace
}  // namespace sluice::autograd
