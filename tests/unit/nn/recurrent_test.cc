// Recurrent layers beside float64 ones, forward and backward, over random shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/autograd.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"
#include "unit/nn/recurrent_fixture.h"

namespace sluice::nn {
namespace {

using reference::Random;
using reference::Tensor;
using ::testing::Each;
using ::testing::HasSubstr;

// Which results something comes back by.
struct Uses {
  bool outputs = true, hidden = true, cell = true;
};

Tensor Joined(const std::vector<Tensor>& parts) {
  Tensor all({0});
  for (const Tensor& part : parts)
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  all.shape = {static_cast<int64_t>(all.values.size())};
  return all;
}

// The results that are used, one behind the other.
Tensor Used(const RecurrentNetwork& net, const Uses& uses, const std::vector<Tensor>& inputs) {
  const reference::RecurrentOutcome outcome = reference::Run(net, inputs);
  std::vector<Tensor> parts;
  if (uses.outputs) parts.push_back(outcome.outputs);
  if (uses.hidden) parts.push_back(outcome.hidden);
  if (uses.cell && net.kind == "lstm") parts.push_back(outcome.cell);
  return Joined(parts);
}

// Results, and the gradients by x, all parameters and the states to begin with.
void CheckRecurrent(const RecurrentNetwork& net, int64_t batch, int64_t steps, bool has_states,
                    const Uses& uses, Rng* rng) {
  SCOPED_TRACE(::testing::Message() << net.kind << ' ' << batch << 'x' << steps << 'x' << net.in << " hidden "
                                    << net.hidden << " layers " << net.layers << " directions "
                                    << net.directions() << " states " << has_states << " lengths "
                                    << !net.lengths.empty() << " uses " << uses.outputs << uses.hidden
                                    << uses.cell);
  const auto layer = Make(net);
  const ParameterDict parameters = layer->CollectParams();
  parameters.Initialize();
  std::vector<Tensor> inputs = {Random({batch, steps, net.in}, rng)};
  (*layer)(reference::ToNDArray(inputs[0]));  // deferred shapes
  for (const auto& parameter : parameters) {
    inputs.push_back(Random(parameter->shape(), rng));
    parameter->SetData(reference::ToNDArray(inputs.back()));
  }
  NDArray x = reference::ToNDArray(inputs[0]);
  autograd::AttachGrad(x);
  std::vector<NDArray> states;
  for (int i = 0; has_states && i < (net.kind == "lstm" ? 2 : 1); ++i) {
    inputs.push_back(Random({net.layers * net.directions(), batch, net.hidden}, rng));
    states.push_back(reference::ToNDArray(inputs.back()));
    autograd::AttachGrad(states.back());
  }
  RecurrentLayer::Output output;
  {
    const autograd::RecordScope record;
    output = layer->Forward(x, states, ToLengths(net.lengths));
  }
  const reference::RecurrentOutcome expected = reference::Run(net, inputs);
  reference::ExpectClose(output.outputs, expected.outputs);
  reference::ExpectClose(output.hidden, expected.hidden);
  if (net.kind == "lstm") reference::ExpectClose(output.cell, expected.cell);

  std::vector<NDArray> used;
  if (uses.outputs) used.push_back(output.outputs);
  if (uses.hidden) used.push_back(output.hidden);
  if (uses.cell && net.kind == "lstm") used.push_back(output.cell);
  std::vector<Tensor> heads;
  std::vector<NDArray> head_arrays;
  for (const NDArray& result : used) {
    heads.push_back(Random(result.shape(), rng));
    head_arrays.push_back(reference::ToNDArray(heads.back()));
  }
  autograd::Backward(used, head_arrays);
  const auto gradient = [&](size_t which) {
    return reference::Gradient([&](const auto& v) { return Used(net, uses, v); }, inputs, which,
                               Joined(heads));
  };
  reference::ExpectClose(autograd::Grad(x), gradient(0));
  for (size_t i = 0; i < parameters.size(); ++i) {
    SCOPED_TRACE(parameters.at(i)->name());
    reference::ExpectClose(parameters.at(i)->grad(cpu(0)), gradient(1 + i));
  }
  for (size_t i = 0; i < states.size(); ++i)
    reference::ExpectClose(autograd::Grad(states[i]), gradient(1 + parameters.size() + i));
}

INSTANTIATE_TEST_SUITE_P(Of, RecurrentTest, ::testing::Values("tanh", "relu", "lstm", "gru"),
                         [](const auto& info) { return info.param; });

TEST_P(RecurrentTest, MatchesTheReference) {
  for (int trial = 0; trial < 24; ++trial) {
    const int64_t batch = From(1, 4), steps = From(1, 5);
    RecurrentNetwork net{GetParam(), From(1, 4), From(1, 4), From(1, 3), Maybe()};
    for (int64_t i = 0; trial % 2 == 0 && i < batch; ++i) net.lengths.push_back(From(0, steps));
    const Uses uses[] = {{}, {true, false, false}, {false, true, false}, {true, true, false}};
    CheckRecurrent(net, batch, steps, Maybe(), uses[trial % 4], &rng_);
  }
}

TEST_P(RecurrentTest, OneOfEverything) {
  for (const bool states : {false, true}) CheckRecurrent({GetParam()}, 1, 1, states, {}, &rng_);
  CheckRecurrent({GetParam(), 1, 1, 1, false, {0}}, 1, 1, true, {}, &rng_);
}

// Loops in vectors, and what is left of them; the cell's gradient alone.
TEST_P(RecurrentTest, WideLayers) {
  CheckRecurrent({GetParam(), 5, 19, 1, false, {2, 3}}, 2, 3, true, {}, &rng_);
  if (IsLstm()) CheckRecurrent({GetParam(), 3, 2}, 2, 3, false, {false, false, true}, &rng_);
}

TEST_P(RecurrentTest, NoSequencesGiveZeroGradients) {
  const auto layer = Make({GetParam(), 3, 4, 2, true});
  layer->CollectParams().Initialize();
  RecurrentLayer::Output output;
  {
    const autograd::RecordScope record;
    output = layer->Forward(NDArray({0, 2, 3}), {});
  }
  EXPECT_EQ(output.outputs.shape(), (Shape{0, 2, 8}));
  EXPECT_EQ(output.hidden.shape(), (Shape{4, 0, 4}));
  autograd::Backward(output.outputs);
  for (const auto& parameter : layer->CollectParams())
    EXPECT_THAT(parameter->grad(cpu(0)).ToVector(), Each(0)) << parameter->name();
}

// From the step that has one on, in its sequence alone.
TEST_P(RecurrentTest, NanPasses) {
  const auto layer = Make({GetParam(), 2, 3});
  layer->CollectParams().Initialize({cpu(0)}, std::make_shared<const One>());
  Tensor x = Random({2, 3, 2}, &rng_);
  x.at(2) = NAN;  // sequence 0, step 1
  const std::vector<float> y = (*layer)(reference::ToNDArray(x)).ToVector();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 3 && i < 9) << i;
}

TEST_P(RecurrentTest, PaddingChangesNothing) {
  const RecurrentNetwork net{GetParam(), 2, 3, 2, true, {2, 4, 0}};
  const auto layer = Make(net);
  layer->CollectParams().Initialize();
  Tensor clean = Random({3, 4, 2}, &rng_), dirty = clean;
  for (const int64_t i : {4, 7, 16, 23}) dirty.at(i) = NAN;
  std::vector<std::vector<float>> runs[2];
  for (const bool is_dirty : {false, true}) {
    NDArray x = reference::ToNDArray(is_dirty ? dirty : clean);
    autograd::AttachGrad(x);
    RecurrentLayer::Output output;
    {
      const autograd::RecordScope record;
      output = layer->Forward(x, {}, ToLengths(net.lengths));
    }
    autograd::Backward({output.outputs, output.hidden});
    runs[is_dirty] = {output.outputs.ToVector(), output.hidden.ToVector(), autograd::Grad(x).ToVector()};
    for (const auto& parameter : layer->CollectParams())
      runs[is_dirty].push_back(parameter->grad(cpu(0)).ToVector());
  }
  EXPECT_EQ(runs[1], runs[0]);
  const std::vector<float>& outputs = runs[0][0];
  for (const size_t row : {2, 3, 8, 9, 10, 11}) EXPECT_EQ(outputs[row * 6], 0) << row;
}

TEST_P(RecurrentTest, LengthsOfAnyTypeAndOnesThatDoNotFit) {
  const auto layer = Make({GetParam(), 1, 2});
  layer->CollectParams().Initialize();
  const NDArray x({2, 3, 1});
  const auto run = [&](const NDArray& lengths) { return layer->Forward(x, {}, lengths).outputs.ToVector(); };
  const std::vector<float> expected = run(ToLengths({1, 3}));
  EXPECT_EQ(run(NDArray::From({1, 3}, {2})), expected);
  EXPECT_EQ(run(NDArray::From(std::span<const int32_t>({1, 3}), {2})), expected);
  EXPECT_EQ(run(NDArray::From(std::span<const uint8_t>({1, 3}), {2})), expected);
  const auto why = [&](const NDArray& lengths) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { run(lengths); });
  };
  EXPECT_THAT(why(ToLengths({1, 4})), HasSubstr("length 4 of sequence 1 is no whole number from 0 to 3"));
  EXPECT_THAT(why(ToLengths({-1, 1})), HasSubstr("length -1 of sequence 0"));
  EXPECT_THAT(why(NDArray::From({1, 2.5}, {2})), HasSubstr("length 2.5 of sequence 1"));
  EXPECT_THAT(why(NDArray({2}, cpu(0), DType::kFloat64)), HasSubstr("got float64"));
  EXPECT_THAT(why(ToLengths({1, 2, 3})), HasSubstr("expects lengths of shape [2] and got [3]"));
  EXPECT_EQ(run(ToLengths({1, 3})), expected);  // and goes on working
}

TEST_P(RecurrentTest, GradReqs) {
  const auto layer = Make({GetParam(), 2, 3});
  const ParameterDict parameters = layer->CollectParams();
  parameters.Initialize();
  const NDArray x = reference::ToNDArray(Random({2, 3, 2}, &rng_));
  const auto pass = [&] {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = (*layer)(x);
    }
    autograd::Backward(y);
  };
  pass();
  std::vector<std::vector<float>> once;
  for (const auto& parameter : parameters) once.push_back(parameter->grad(cpu(0)).ToVector());
  parameters.SetGradReq(autograd::GradReq::kAdd);
  pass();
  pass();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<float> twice = parameters.at(i)->grad(cpu(0)).ToVector();
    for (size_t j = 0; j < twice.size(); ++j) EXPECT_FLOAT_EQ(twice[j], 2 * once[i][j]);
  }
  // Those that are not frozen get what they did; the last bias alone too.
  for (const auto& parameter : parameters) parameter->SetGradReq(autograd::GradReq::kNull);
  parameters.at(3)->SetGradReq(autograd::GradReq::kWrite);
  pass();
  EXPECT_EQ(parameters.at(3)->grad(cpu(0)).ToVector(), once[3]);
}

TEST_P(RecurrentTest, SharedWeightsGetTheSumOfTheirGradients) {
  const RecurrentNetwork net{GetParam(), 3, 3};
  const auto first = Make(net), second = Make(net), other = Make(net);
  first->AddPrefix("first");
  second->ShareParameters(*first);
  for (const auto* layer : {first.get(), other.get()})
    layer->CollectParams().Initialize({cpu(0)}, nullptr, 3);
  const NDArray x = reference::ToNDArray(Random({2, 3, 3}, &rng_));
  (*first)(x);
  (*other)(x);
  for (size_t i = 0; i < 4; ++i)
    other->CollectParams().at(i)->SetData(first->CollectParams().at(i)->data(cpu(0)));
  const auto gradients = [&](RecurrentLayer& below, RecurrentLayer& above) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = above(below(x));
    }
    autograd::Backward(y);
  };
  gradients(*first, *other);
  std::vector<std::vector<float>> sums;
  for (size_t i = 0; i < 4; ++i) {
    sums.push_back(
        (first->CollectParams().at(i)->grad(cpu(0)) + other->CollectParams().at(i)->grad(cpu(0))).ToVector());
  }
  gradients(*first, *second);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_THAT(first->CollectParams().at(i)->grad(cpu(0)).ToVector(),
                ::testing::Pointwise(::testing::FloatNear(1e-5f), sums[i]));
  }
}

}  // namespace
}  // namespace sluice::nn
