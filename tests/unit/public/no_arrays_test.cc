// An array that was never made, and one that has been moved from, as every array argument of every public
// operation, layer, loss and metric.
#include <memory>
#include <utility>

#include "sluice/autograd.h"
#include "sluice/clip.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/nn.h"
#include "sluice/ops.h"
#include "sluice/split.h"
#include "unit/public/calls.h"

namespace sluice {
namespace {

struct None {
  std::string name;
  std::function<NDArray(const Shape&)> make;  // has this shape, where it has one
};

const std::vector<None> kNone = {{"never made", [](const Shape&) { return NDArray(); }},
                                 {"moved from", [](const Shape& shape) {
                                    NDArray array(shape);
                                    const NDArray taken = std::move(array);
                                    return array;
                                  }}};

// Calls with `none` in place of x, whose shape is [2, 3] where nothing else is said.
std::vector<Call> MethodCalls(NDArray none) {
  const NDArray x({2, 3});
  const auto to = std::make_shared<NDArray>(Shape{2, 3});
  const auto n = std::make_shared<NDArray>(std::move(none));
  return {
      {"dtype", "dtype", [=] { n->dtype(); }},
      {"context", "context", [=] { n->context(); }},
      {"ToVector", "ToVector", [=] { n->ToVector(); }},
      {"ToScalar", "ToScalar", [=] { n->ToScalar(); }},
      {"Reshape", "Reshape",
       [=] {
         n->Reshape({3, 2});
       }},
      {"SliceRows", "SliceRows", [=] { n->SliceRows(0, 1); }},
      {"CopyTo", "CopyTo", [=] { n->CopyTo(to.get()); }},
      {"CopyTo none", "CopyTo", [=] { x.CopyTo(n.get()); }},
      {"CopyTo null", "CopyTo", [=] { x.CopyTo(nullptr); }},
      {"AsInContext", "AsInContext", [=] { n->AsInContext(cpu(1)); }},
      {"AsType", "AsType", [=] { n->AsType(DType::kFloat64); }},
      {"Copy", "Copy", [=] { n->Copy(); }},
      {"Fill", "Fill", [=] { n->Fill(1); }},
      {"SetBytes", "SetBytes", [=] { n->SetBytes({}); }},
      {"+= into none", "+=", [=] { *n += x; }},
      {"+=", "+=", [=] { *to += *n; }},
      {"-=", "-=", [=] { *to -= *n; }},
      {"*= number", "*=", [=] { *n *= 2; }},
      {"+", "+", [=] { x + *n; }},
      {"+ first", "+", [=] { *n + x; }},
      {"-", "-", [=] { x - *n; }},
      {"*", "*", [=] { x** n; }},
      {"* number", "*", [=] { *n * 2; }},
      {"+ number", "+", [=] { *n + 2; }},
      {"negated", "*", [=] { -*n; }},
      {"AttachGrad", "AttachGrad", [=] { autograd::AttachGrad(*n); }},
      {"Grad", "AttachGrad", [=] { autograd::Grad(*n); }},
      {"SetGradHook", "hook", [=] { autograd::SetGradHook(*n, [] {}); }},
      {"Backward", "Backward", [=] { autograd::Backward(*n); }},
      {"Backward of several", "Backward",
       [=] {
         autograd::Backward({*n, *n});
       }},
      {"ClipGlobalNorm", "ClipGlobalNorm",
       [=] {
         ClipGlobalNorm({x, *n}, 1);
       }},
      {"SplitData", "split", [=] { SplitData(*n, 2); }},
      {"SplitAndLoad", "split",
       [=] {
         SplitAndLoad(*n, {cpu(0), cpu(1)});
       }},
  };
}

// Each of these operations refuses an array without rows or values, with its name in the message.
std::vector<Call> LayerOperationCalls(const None& none) {
  const auto of = [&](const Shape& shape) { return none.make(shape); };
  const NDArray x({2, 3}), weight({4, 3}), image({1, 2, 5, 5}), kernel({3, 2, 3, 3}), c({2}),
      steps({2, 4, 3}), ids({2, 4});
  const auto mean = std::make_shared<NDArray>(Shape{2}), variance = std::make_shared<NDArray>(Shape{2});
  const auto lost = std::make_shared<NDArray>(of({2}));
  const ops::Window2D pool{2, 2, 2, 2};
  const ops::RecurrentWeights rnn{NDArray({5, 3}), NDArray({5, 5}), NDArray({5}), NDArray({5})};
  const NDArray n = of({2, 3}), no_image = of({1, 2, 5, 5}), no_steps = of({2, 4, 3});
  return {
      {"Dense", "Dense", [=] { ops::Dense(n, weight); }},
      {"Dense weight", "Dense", [=, w = of({4, 3})] { ops::Dense(x, w); }},
      {"Conv2D", "Conv2D", [=] { ops::Conv2D(no_image, kernel); }},
      {"Conv2D weight", "Conv2D", [=, w = of({3, 2, 3, 3})] { ops::Conv2D(image, w); }},
      {"Conv2DTranspose", "Conv2DTranspose",
       [=] { ops::Conv2DTranspose(no_image, kernel, {}, {}, 1, 7, 7); }},
      {"Conv2DTranspose weight", "Conv2DTranspose",
       [=, w = of({2, 3, 3, 3})] { ops::Conv2DTranspose(image, w, {}, {}, 1, 7, 7); }},
      {"MaxPool2D", "Pool", [=] { ops::MaxPool2D(no_image, pool); }},
      {"AvgPool2D", "Pool", [=] { ops::AvgPool2D(no_image, pool); }},
      {"BatchNorm", "BatchNorm", [=] { ops::BatchNorm(no_image, c, c, *mean, *variance, {}); }},
      {"BatchNorm mean", "BatchNorm", [=] { ops::BatchNorm(image, c, c, *lost, *variance, {}); }},
      {"BatchNorm variance", "BatchNorm", [=] { ops::BatchNorm(image, c, c, *mean, *lost, {}); }},
      {"LayerNorm", "LayerNorm", [=] { ops::LayerNorm(n, {}, {}); }},
      {"Dropout", "Dropout", [=] { ops::Dropout(n, 0.5, 1); }},
      {"Embedding", "Embedding", [=] { ops::Embedding(n, weight); }},
      {"Embedding weight", "Embedding", [=, w = of({4, 3})] { ops::Embedding(ids, w); }},
      {"EmbeddingBag", "EmbeddingBag", [=, none = of({2, 4})] { ops::EmbeddingBag(none, weight); }},
      {"EmbeddingBag weight", "EmbeddingBag", [=, w = of({4, 3})] { ops::EmbeddingBag(ids, w); }},
      {"Rnn", "Rnn", [=] { ops::Rnn(no_steps, rnn, ops::RnnActivation::kTanh); }},
      {"Lstm weights", "Lstm", [=] { ops::Lstm(steps, {}); }},
      {"Gru weights", "Gru", [=] { ops::Gru(steps, {}); }},
      {"SequenceLengths", "SequenceLengths", [=, none = of({2, 4})] { ops::SequenceLengths(none); }},
  };
}

std::vector<Call> ActivationCalls(const None& none) {
  const NDArray n = none.make({2, 3});
  return {
      {"Relu", "relu", [=] { ops::Relu(n); }},
      {"Tanh", "tanh", [=] { ops::Tanh(n); }},
      {"Sigmoid", "sigmoid", [=] { ops::Sigmoid(n); }},
      {"LeakyRelu", "leaky_relu", [=] { ops::LeakyRelu(n); }},
      {"Elu", "elu", [=] { ops::Elu(n); }},
      {"Gelu", "gelu", [=] { ops::Gelu(n); }},
      {"Softplus", "softplus", [=] { ops::Softplus(n); }},
      {"Silu", "silu", [=] { ops::Silu(n); }},
      {"Softsign", "softsign", [=] { ops::Softsign(n); }},
      {"LogSigmoid", "log_sigmoid", [=] { ops::LogSigmoid(n); }},
      {"Mish", "mish", [=] { ops::Mish(n); }},
  };
}

std::vector<Call> ShapeAndSumCalls(const None& none) {
  const NDArray x({2, 3}), n = none.make({2, 3}), no_steps = none.make({2, 4, 3});
  return {
      {"Flatten", "Flatten", [=] { ops::Flatten(n); }},
      {"Reshape", "Reshape",
       [=] {
         ops::Reshape(n, {3, 2});
       }},
      {"Slice", "Slice", [=] { ops::Slice(n, 0, 0, 1); }},
      {"Concat", "Concat",
       [=] {
         ops::Concat({n, x}, 0);
       }},
      {"Concat second", "Concat",
       [=] {
         ops::Concat({x, n}, 0);
       }},
      {"Sum", "Sum", [=] { ops::Sum(n); }},
      {"Mean", "Mean", [=] { ops::Mean(n); }},
      {"SumOfRows", "SumOfRows", [=] { ops::SumOfRows(n); }},
      {"MeanOfSteps", "MeanOfSteps", [=] { ops::MeanOfSteps(no_steps); }},
  };
}

std::vector<Call> LossOperationCalls(const None& none) {
  const NDArray x({2, 3}), labels({2}), n = none.make({2, 3}), no_labels = none.make({2});
  return {
      {"SoftmaxCrossEntropy", "SoftmaxCrossEntropy", [=] { ops::SoftmaxCrossEntropy(n, labels); }},
      {"SoftmaxCrossEntropy labels", "SoftmaxCrossEntropy", [=] { ops::SoftmaxCrossEntropy(x, no_labels); }},
      {"LogSoftmax", "LogSoftmax", [=] { ops::LogSoftmax(n); }},
      {"L2", "L2", [=] { ops::L2(n, x); }},
      {"L2 labels", "L2", [=] { ops::L2(x, n); }},
      {"L2 of none", "L2", [=] { ops::L2(n, n); }},
      {"L1", "L1", [=] { ops::L1(x, n); }},
      {"Huber", "Huber", [=] { ops::Huber(x, n); }},
      {"SigmoidBinaryCrossEntropy", "SigmoidBinaryCrossEntropy",
       [=] { ops::SigmoidBinaryCrossEntropy(x, n); }},
      {"KlDivergence", "KlDivergence", [=] { ops::KlDivergence(x, n); }},
  };
}

template <typename L>
Call Forward(const std::string& name, std::shared_ptr<L> layer, const NDArray& none) {
  return {name, name, [layer, none] {
            layer->CollectParams().Initialize();
            (*layer)(none);
          }};
}

std::vector<Call> LayerCalls(const None& none) {
  const NDArray x = none.make({2, 3}), image = none.make({1, 2, 5, 5}), steps = none.make({2, 4, 3}),
                ids = none.make({2, 4});
  const NDArray real_steps({2, 4, 3});
  const auto lstm = std::make_shared<nn::Lstm>(5);
  return {
      Forward("Dense", std::make_shared<nn::Dense>(4), x),
      Forward("Flatten", std::make_shared<nn::Flatten>(), image),
      Forward("Conv2D", std::make_shared<nn::Conv2D>(3, 3), image),
      Forward("Conv2DTranspose", std::make_shared<nn::Conv2DTranspose>(3, 3), image),
      Forward("Pool2D", std::make_shared<nn::MaxPool2D>(2), image),
      Forward("Pool2D", std::make_shared<nn::AvgPool2D>(2), image),
      Forward("Pool", std::make_shared<nn::GlobalAvgPool2D>(), image),
      Forward("Pool", std::make_shared<nn::GlobalMaxPool2D>(), image),
      Forward("relu", std::make_shared<nn::Activation>(nn::Activation::Relu()), x),
      Forward("BatchNorm", std::make_shared<nn::BatchNorm>(), image),
      Forward("LayerNorm", std::make_shared<nn::LayerNorm>(), x),
      {"Dropout", "Dropout",
       [=] {
         autograd::RecordScope record;
         nn::Dropout(0.5)(x);
       }},
      Forward("Embedding", std::make_shared<nn::Embedding>(9, 2), ids),
      Forward("EmbeddingBag", std::make_shared<nn::EmbeddingBag>(9, 2), ids),
      Forward("Mean", std::make_shared<nn::SequenceMean>(), steps),
      Forward("S", std::make_shared<nn::SequenceLast>(), steps),
      Forward("Lstm", std::make_shared<nn::Lstm>(5), steps),
      Forward("Gru", std::make_shared<nn::Gru>(5), steps),
      {"Lstm states", "Lstm",
       [=] {
         if (!lstm->CollectParams().at(0)->deferred()) lstm->CollectParams().Initialize();
         lstm->Forward(real_steps, {none.make({1, 2, 5}), none.make({1, 2, 5})});
       }},
      {"Residual", "Dense",
       [=] {
         nn::Residual layer{nn::Dense(3)};
         layer.CollectParams().Initialize();
         layer(x);
       }},
  };
}

std::vector<Call> ScoreCalls(const None& none) {
  const NDArray x({2, 3}), labels({2}), n = none.make({2, 3}), no_labels = none.make({2});
  return {
      {"SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss",
       [=] { nn::SoftmaxCrossEntropyLoss()(n, labels); }},
      {"SoftmaxCrossEntropyLoss labels", "SoftmaxCrossEntropyLoss",
       [=] { nn::SoftmaxCrossEntropyLoss()(x, no_labels); }},
      {"L2Loss", "L2Loss", [=] { nn::L2Loss()(n, x); }},
      {"L2Loss labels", "L2Loss", [=] { nn::L2Loss()(x, n); }},
      {"L1Loss", "L1Loss", [=] { nn::L1Loss()(n, x); }},
      {"HuberLoss", "HuberLoss", [=] { nn::HuberLoss()(x, n); }},
      {"SigmoidBinaryCrossEntropyLoss", "SigmoidBinaryCrossEntropyLoss",
       [=] { nn::SigmoidBinaryCrossEntropyLoss()(n, x); }},
      {"KLDivLoss", "KLDivLoss", [=] { nn::KLDivLoss()(x, n); }},
      {"Accuracy", "accuracy", [=] { metric::Accuracy().Update(labels, n); }},
      {"Accuracy labels", "accuracy", [=] { metric::Accuracy().Update(no_labels, x); }},
      {"TopKAccuracy", "top_2_accuracy", [=] { metric::TopKAccuracy(2).Update(labels, n); }},
      {"BinaryAccuracy", "binary_accuracy", [=] { metric::BinaryAccuracy().Update(labels, no_labels); }},
      {"MeanAbsoluteError", "mae", [=] { metric::MeanAbsoluteError().Update(no_labels, labels); }},
      {"RootMeanSquaredError", "rmse", [=] { metric::RootMeanSquaredError().Update(labels, no_labels); }},
      {"Loss", "loss", [=] { metric::Loss().Update(labels, no_labels); }},
  };
}

class NoArraysTest : public ::testing::TestWithParam<None> {};

TEST_P(NoArraysTest, Methods) {
  ExpectErrors(MethodCalls(GetParam().make({2, 3})));
}
TEST_P(NoArraysTest, Operations) {
  for (const auto& calls : {LayerOperationCalls, ActivationCalls, ShapeAndSumCalls, LossOperationCalls})
    ExpectErrors(calls(GetParam()), ErrorCode::kFailedPrecondition);
}
TEST_P(NoArraysTest, Layers) {
  ExpectErrors(LayerCalls(GetParam()));
}
TEST_P(NoArraysTest, LossesAndMetrics) {
  ExpectErrors(ScoreCalls(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Every, NoArraysTest, ::testing::ValuesIn(kNone), [](const auto& info) {
  return std::string(info.param.name == "never made" ? "NeverMade" : "MovedFrom");
});

// What takes an array or none.
TEST(NoArraysTest, WhereNoneIsMeant) {
  const NDArray x({2, 3});
  EXPECT_EQ(ops::Dense(x, NDArray({4, 3}), NDArray()).shape(), Shape({2, 4}));
  EXPECT_EQ(ops::LayerNorm(x, {}, {}).shape(), Shape({2, 3}));
  EXPECT_FALSE(NDArray().Detach().valid());
  EXPECT_EQ(autograd::GradVersion(NDArray()), 0u);
  NDArray().WaitToRead();
}

}  // namespace
}  // namespace sluice
