// Layers and losses beside what PyTorch computed (make_reference.py), forward and backward.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "sluice/autograd.h"
#include "sluice/loss.h"
#include "sluice/nn.h"

namespace sluice::nn {
namespace {

struct Tensor {
  Shape shape;
  std::vector<float> values;
};
using Case = std::map<std::string, Tensor>;

Shape ReadShape(const std::string& text) {
  std::vector<int64_t> dims;
  std::istringstream in(text);
  for (std::string extent; std::getline(in, extent, 'x');) dims.push_back(std::stoll(extent));
  return Shape(dims);
}

std::map<std::string, Case> ReadReference() {
  std::ifstream file(GOLDEN_FOLDER "/reference.txt");
  std::map<std::string, Case> cases;
  Case* current = nullptr;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word, name, shape, colon;
    line >> word >> name;
    if (word == "case") current = &cases[name];
    if (word != "tensor") continue;
    line >> shape >> colon;
    Tensor& tensor = (*current)[name];
    tensor.shape = ReadShape(shape);
    for (double number; line >> number;) tensor.values.push_back(static_cast<float>(number));
  }
  return cases;
}

NDArray ToNDArray(const Tensor& tensor) {
  return NDArray::From(std::span<const float>(tensor.values), tensor.shape);
}

void ExpectClose(const NDArray& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape);
  const std::vector<float> values = actual.ToVector();
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected.values[i], 1e-5 * (1 + std::fabs(expected.values[i]))) << "element " << i;
}

class PyTorch : public ::testing::Test {
 protected:
  const Tensor& Get(const std::string& name) { return cases_.at(case_).at(name); }
  NDArray Label() { return ToNDArray(Get("label")); }

  // `parameters` get the values of the case's tensors of their names.
  void Expect(const std::string& name, const std::function<NDArray(const NDArray&)>& function,
              const ParameterDict& parameters = {}, bool training = true) {
    SCOPED_TRACE(name);
    case_ = name;
    const bool has_x = cases_.at(name).contains("x");
    NDArray x = ToNDArray(Get(has_x ? "x" : "ids")), y;
    if (has_x) autograd::AttachGrad(x);
    if (!parameters.empty()) {
      bool deferred = false;
      for (const auto& parameter : parameters) deferred = deferred || !parameter->initialized();
      if (deferred) parameters.Initialize();
      function(x);
    }
    for (const auto& parameter : parameters) {
      if (parameter->differentiable()) parameter->SetData(ToNDArray(Get(parameter->name())));
    }
    {
      const autograd::RecordScope record(training);
      y = function(x);
    }
    ExpectClose(y, Get("y"));
    autograd::Backward({y}, {ToNDArray(Get("head"))});
    if (has_x) ExpectClose(autograd::Grad(x), Get("grad_x"));
    for (const auto& parameter : parameters) {
      SCOPED_TRACE(parameter->name());
      if (parameter->differentiable()) ExpectClose(parameter->grad(cpu(0)), Get("grad_" + parameter->name()));
    }
  }
  void Expect(const std::string& name, Layer& layer, bool training = true) {
    Expect(
        name, [&](const NDArray& x) { return layer(x); }, layer.CollectParams(), training);
  }
  void Expect(const std::string& name, const Loss& loss) {
    Expect(name, [&](const NDArray& x) { return loss(x, Label()); });
  }

  std::map<std::string, Case> cases_ = ReadReference();
  std::string case_;
};

TEST_F(PyTorch, Convolutions) {
  Conv2D conv(6, {3, 2}, {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2});
  Expect("conv", conv);
  Conv2DTranspose transpose(
      6, {3, 2},
      {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .dilation = {2, 1}, .groups = 2});
  Expect("conv_transpose", transpose);
}

TEST_F(PyTorch, Normalisation) {
  BatchNorm batch;
  Expect("batch_norm_training", batch);
  ExpectClose(batch.CollectParams()["running_mean"].data(cpu(0)), Get("running_mean"));
  ExpectClose(batch.CollectParams()["running_var"].data(cpu(0)), Get("running_var"));
  Expect("batch_norm_evaluation", batch, /*training=*/false);
  LayerNorm layer;
  Expect("layer_norm", layer);
}

TEST_F(PyTorch, Activations) {
  for (const std::string_view name : Activation::Names()) {
    if (name == "relu" || name == "tanh" || name == "sigmoid") continue;  // the reference has no case of them
    Activation activation(name);
    Expect(std::string(name), activation);
  }
}

TEST_F(PyTorch, Embeddings) {
  Embedding embedding(5, 3);
  Expect("embedding", embedding);
}

// PyTorch's weights as they are.
TEST_F(PyTorch, Recurrent) {
  const RecurrentOptions options{.num_layers = 2, .bidirectional = true};
  const auto expect = [&](const std::string& name, RecurrentLayer&& layer) {
    const auto given = [&](const char* constant) {
      return cases_.at(name).contains(constant) ? ToNDArray(cases_.at(name).at(constant)) : NDArray();
    };
    std::vector<NDArray> states = {given("hidden")};
    if (given("cell").valid()) states.push_back(given("cell"));
    const auto run = [&](const NDArray& x) {
      const RecurrentLayer::Output output = layer.Forward(x, states, given("lengths"));
      std::vector<NDArray> parts = {output.outputs};
      for (const NDArray& state : output.states()) parts.push_back(state);
      for (NDArray& part : parts) part = ops::Reshape(part, {part.size()});
      return ops::Concat(parts, 0);
    };
    Expect(name, run, layer.CollectParams());
  };
  expect("rnn_tanh", Rnn(4, ops::RnnActivation::kTanh, options));
  expect("rnn_relu", Rnn(4, ops::RnnActivation::kRelu, options));
  expect("lstm", Lstm(4, options));
  expect("gru", Gru(4, options));
  expect("lstm_lengths", Lstm(4, options));
  expect("gru_lengths", Gru(4, options));
}

TEST_F(PyTorch, Losses) {
  Expect("cross_entropy", SoftmaxCrossEntropyLoss());
  Expect("cross_entropy_smoothed", SoftmaxCrossEntropyLoss({.label_smoothing = 0.1f}));
  Expect("cross_entropy_probabilities", SoftmaxCrossEntropyLoss({.label_smoothing = 0.1f}));
  Expect("cross_entropy_steps", SoftmaxCrossEntropyLoss({.label_smoothing = 0.1f}));
  Expect("l1", L1Loss());
  Expect("huber", HuberLoss(0.5f));
  Expect("logistic", SigmoidBinaryCrossEntropyLoss());
  Expect("kl_div", KLDivLoss(/*from_logits=*/false));
}

}  // namespace
}  // namespace sluice::nn
