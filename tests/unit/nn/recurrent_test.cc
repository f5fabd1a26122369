// Recurrent layers beside float64 ones, forward and backward, over random shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"
#include "unit/nn/recurrent_reference.h"

namespace sluice::nn {
namespace {

using reference::Random;
using reference::RecurrentNetwork;
using reference::Tensor;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<RecurrentLayer> Make(const RecurrentNetwork& net, double dropout = 0) {
  const RecurrentOptions options{
      .num_layers = net.layers, .bidirectional = net.bidirectional, .dropout = dropout};
  if (net.kind == "lstm") return std::make_unique<Lstm>(net.hidden, options);
  if (net.kind == "gru") return std::make_unique<Gru>(net.hidden, options);
  return std::make_unique<Rnn>(
      net.hidden, net.kind == "tanh" ? ops::RnnActivation::kTanh : ops::RnnActivation::kRelu, options);
}

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

NDArray ToLengths(const std::vector<int64_t>& lengths) {
  return lengths.empty()
             ? NDArray()
             : NDArray::From(std::span<const int64_t>(lengths), {static_cast<int64_t>(lengths.size())});
}

// Results, and the gradients by x, all parameters and the states to begin with.
void Check(const RecurrentNetwork& net, int64_t batch, int64_t steps, bool has_states, const Uses& uses,
           Rng* rng) {
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
  reference::ExpectClose(output.states[0], expected.hidden);
  if (net.kind == "lstm") reference::ExpectClose(output.states[1], expected.cell);

  std::vector<NDArray> used;
  if (uses.outputs) used.push_back(output.outputs);
  if (uses.hidden) used.push_back(output.states[0]);
  if (uses.cell && net.kind == "lstm") used.push_back(output.states[1]);
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

class RecurrentTest : public ::testing::TestWithParam<const char*> {
 protected:
  int64_t From(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most - least + 1)));
  }
  bool Maybe() { return rng_.Below(2) == 0; }
  bool IsLstm() const { return GetParam() == std::string("lstm"); }
  Rng rng_{7};
};
INSTANTIATE_TEST_SUITE_P(Of, RecurrentTest, ::testing::Values("tanh", "relu", "lstm", "gru"),
                         [](const auto& info) { return info.param; });

TEST_P(RecurrentTest, MatchesTheReference) {
  for (int trial = 0; trial < 24; ++trial) {
    const int64_t batch = From(1, 4), steps = From(1, 5);
    RecurrentNetwork net{GetParam(), From(1, 4), From(1, 4), From(1, 3), Maybe()};
    for (int64_t i = 0; trial % 2 == 0 && i < batch; ++i) net.lengths.push_back(From(0, steps));
    const Uses uses[] = {{}, {true, false, false}, {false, true, false}, {true, true, false}};
    Check(net, batch, steps, Maybe(), uses[trial % 4], &rng_);
  }
}

TEST_P(RecurrentTest, OneOfEverything) {
  for (const bool states : {false, true}) Check({GetParam()}, 1, 1, states, {}, &rng_);
  Check({GetParam(), 1, 1, 1, false, {0}}, 1, 1, true, {}, &rng_);
}

// Loops in vectors, and what is left of them; the cell's gradient alone.
TEST_P(RecurrentTest, WideLayers) {
  Check({GetParam(), 5, 19, 1, false, {2, 3}}, 2, 3, true, {}, &rng_);
  if (IsLstm()) Check({GetParam(), 3, 2}, 2, 3, false, {false, false, true}, &rng_);
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
  EXPECT_EQ(output.states[0].shape(), (Shape{4, 0, 4}));
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
    autograd::Backward({output.outputs, output.states[0]});
    runs[is_dirty] = {output.outputs.ToVector(), output.states[0].ToVector(), autograd::Grad(x).ToVector()};
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

// A layer for each context is the stack of them.
TEST_P(RecurrentTest, LayersOnSeveralContexts) {
  const auto stack = Make({GetParam(), 3, 4, 2}), below = Make({GetParam(), 3, 4}),
             above = Make({GetParam(), 4, 4});
  stack->CollectParams().Initialize({cpu(0)}, nullptr, 5);
  below->CollectParams().Initialize({cpu(0)});
  above->CollectParams().Initialize({cpu(1)});
  NDArray x = reference::ToNDArray(Random({2, 3, 3}, &rng_)), y[2];
  autograd::AttachGrad(x);
  (*stack)(x);
  (*above)((*below)(x).AsInContext(cpu(1)));
  std::vector<std::shared_ptr<Parameter>> halves;
  for (const auto* half : {below.get(), above.get()}) {
    for (const auto& parameter : half->CollectParams()) {
      parameter->SetData(stack->CollectParams().at(halves.size())->data(cpu(0)));
      halves.push_back(parameter);
    }
  }
  const NDArray head = reference::ToNDArray(Random({2, 3, 4}, &rng_));
  std::vector<float> grads[2];
  for (const size_t split : {0u, 1u}) {
    {
      const autograd::RecordScope record;
      y[split] = split ? (*above)((*below)(x).AsInContext(cpu(1))) : (*stack)(x);
    }
    autograd::Backward({y[split]}, {head.AsInContext(y[split].context())});
    grads[split] = autograd::Grad(x).ToVector();
  }
  EXPECT_EQ(y[1].context(), cpu(1));
  EXPECT_EQ(y[1].ToVector(), y[0].ToVector());
  EXPECT_EQ(grads[1], grads[0]);
  for (size_t i = 0; i < halves.size(); ++i) {
    EXPECT_EQ(halves[i]->grad(halves[i]->list_ctx()[0]).ToVector(),
              stack->CollectParams().at(i)->grad(cpu(0)).ToVector());
  }
}

// Dropout between the layers included, and whatever the cut.
TEST_P(RecurrentTest, DevicesTogetherGiveTheGradientOfOne) {
  const RecurrentNetwork net{GetParam(), 3, 4, 3};
  const Tensor x = Random({5, 4, 3}, &rng_);
  const NDArray whole = reference::ToNDArray(x), lengths = ToLengths({4, 2, 3, 1, 4});
  const auto gradients = [&](const std::vector<Context>& contexts, const std::vector<int64_t>& cuts) {
    const auto layer = Make(net, 0.4);
    layer->AddPrefix("recurrent");
    layer->CollectParams().Initialize(contexts, nullptr, 9);
    (*layer)(whole);
    std::vector<NDArray> ys;
    {
      const autograd::RecordScope record({.seed = 1, .step = 2});
      for (size_t i = 0; i < contexts.size(); ++i) {
        const autograd::SampleScope samples(static_cast<uint64_t>(cuts[i]));
        const auto part = [&](const NDArray& of) {
          return of.SliceRows(cuts[i], cuts[i + 1]).AsInContext(contexts[i]);
        };
        ys.push_back(layer->Forward(part(whole), {}, part(lengths)).outputs);
      }
    }
    autograd::Backward(ys);
    std::vector<std::vector<float>> sums;
    for (const auto& parameter : layer->CollectParams()) {
      sums.push_back(parameter->grad(cpu(0)).ToVector());
      for (size_t i = 1; i < contexts.size(); ++i) {
        const std::vector<float> more = parameter->grad(contexts[i]).ToVector();
        for (size_t j = 0; j < more.size(); ++j) sums.back()[j] += more[j];
      }
    }
    return sums;
  };
  const auto one = gradients({cpu(0)}, {0, 5});
  const auto three = gradients({cpu(0), cpu(1), cpu(2)}, {0, 2, 2, 5});
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_THAT(three[i], ::testing::Pointwise(::testing::FloatNear(1e-5f), one[i]));
}

TEST_P(RecurrentTest, DropoutIsBetweenLayersWhileTraining) {
  const auto layer = Make({GetParam(), 3, 4, 2}, 0.5), plain = Make({GetParam(), 3, 4, 1}, 0.5);
  const NDArray x = reference::ToNDArray(Random({2, 3, 3}, &rng_));
  for (auto* any : {layer.get(), plain.get()}) any->CollectParams().Initialize({cpu(0)}, nullptr, 4);
  const std::vector<float> evaluated = (*layer)(x).ToVector(), alone = (*plain)(x).ToVector();
  const autograd::RecordScope record;
  EXPECT_NE((*layer)(x).ToVector(), evaluated);
  EXPECT_EQ((*plain)(x).ToVector(), alone);  // the last layer's outputs stay
}

// A text in pieces that hand on their states is the text; gradients end where a state was detached.
TEST_P(RecurrentTest, StatesCarryOn) {
  const auto layer = Make({GetParam(), 2, 3, 2});
  layer->CollectParams().Initialize();
  const NDArray text = reference::ToNDArray(Random({2, 6, 2}, &rng_));
  const std::vector<float> whole = (*layer)(text).ToVector();
  std::vector<NDArray> states = layer->BeginState(2), pieces;
  for (int64_t piece = 0; piece < 3; ++piece) {
    RecurrentLayer::Output output;
    {
      const autograd::RecordScope record;
      output = layer->Forward(ops::Slice(text, 1, 2 * piece, 2 * piece + 2), states);
    }
    autograd::Backward(output.outputs);  // of this piece alone
    pieces.push_back(output.outputs);
    for (size_t i = 0; i < states.size(); ++i) states[i] = output.states[i].Detach();
  }
  EXPECT_THAT(ops::Concat(pieces, 1).ToVector(), ::testing::Pointwise(::testing::FloatNear(1e-6f), whole));
}

TEST_P(RecurrentTest, BFloat16WeightsComputeInFloat32) {
  const auto wide = Make({GetParam(), 2, 3}), narrow = Make({GetParam(), 2, 3});
  narrow->CollectParams().Cast(DType::kBFloat16);
  const NDArray x = reference::ToNDArray(Random({2, 3, 2}, &rng_));
  for (auto* layer : {wide.get(), narrow.get()}) {
    layer->CollectParams().Initialize({cpu(0)}, nullptr, 6);
    (*layer)(x);
  }
  for (size_t i = 0; i < 4; ++i) {
    Parameter& to = *wide->CollectParams().at(i);
    to.SetData(to.data(cpu(0)).AsType(DType::kBFloat16).AsType(DType::kFloat32));
  }
  NDArray y[2];
  {
    const autograd::RecordScope record;
    y[0] = (*wide)(x);
    y[1] = (*narrow)(x);
  }
  EXPECT_THAT(y[1].ToVector(), ::testing::Pointwise(::testing::FloatNear(0.02f), y[0].ToVector()));
  autograd::Backward({y[0], y[1]});
  EXPECT_EQ(narrow->CollectParams().at(0)->grad(cpu(0)).dtype(), DType::kBFloat16);
}

TEST_P(RecurrentTest, Refusals) {
  const auto made = Make({GetParam(), 2, 3, 2, true});
  RecurrentLayer& layer = *made;
  layer.AddPrefix("encoder");
  layer.CollectParams().Initialize();
  const auto why = [](const std::function<void()>& call) {
    return ErrorOf(ErrorCode::kInvalidArgument, call);
  };
  EXPECT_THAT(why([&] {
                layer(NDArray({2, 3}));
              }),
              HasSubstr("expects input of shape [batch, steps, input_size] and got [2, 3]"));
  layer(NDArray({1, 1, 2}));
  EXPECT_THAT(why([&] {
                layer(NDArray({2, 3, 4}));
              }),
              HasSubstr(StrCat("encoder (", layer.kind(),
                               ") expects input of shape [batch, steps, 2] and got "
                               "[2, 3, 4]")));
  EXPECT_THAT(why([&] { layer(NDArray({2, 0, 2})); }), HasSubstr("[2, 0, 2]"));
  std::vector<NDArray> states = layer.BeginState(5);
  EXPECT_THAT(why([&] {
                layer.Forward(NDArray({2, 3, 2}), states);
              }),
              HasSubstr("expects states of shape [4, 2, 3] and got [4, 5, 3]"));
  states.push_back(states[0]);
  EXPECT_THAT(why([&] {
                layer.Forward(NDArray({5, 3, 2}), states);
              }),
              HasSubstr(IsLstm() ? "expects 2 states, hidden and cell, or none and got 3"
                                 : "expects 1 state or none and got 2"));
  EXPECT_THAT(why([&] {
                layer.Forward(NDArray({5, 3, 2}), layer.BeginState(5, cpu(1)));
              }),
              HasSubstr("AsInContext"));
  EXPECT_THAT(why([&] { Make({GetParam(), 1, 0}); }), HasSubstr("the number of hidden units is 0"));
  EXPECT_THAT(why([&] { Make({GetParam(), 1, 1, 0}); }), HasSubstr("num_layers is 0"));
  EXPECT_THAT(why([&] { Make({GetParam()}, 1); }), HasSubstr("the dropout is 1"));
}

TEST(RecurrentLayersTest, NamesShapesAndInitialisers) {
  Lstm lstm(3, {.num_layers = 2, .bidirectional = true, .i2h_bias_init = std::make_shared<const One>()});
  const ParameterDict parameters = lstm.CollectParams();
  parameters.Initialize();
  lstm(NDArray({1, 1, 5}));
  std::vector<std::string> lines;
  for (const auto& parameter : parameters)
    lines.push_back(parameter->name() + " " + parameter->shape().ToString());
  EXPECT_THAT(
      lines,
      ElementsAre("l0_i2h_weight [12, 5]", "l0_h2h_weight [12, 3]", "l0_i2h_bias [12]", "l0_h2h_bias [12]",
                  "r0_i2h_weight [12, 5]", "r0_h2h_weight [12, 3]", "r0_i2h_bias [12]", "r0_h2h_bias [12]",
                  "l1_i2h_weight [12, 6]", "l1_h2h_weight [12, 3]", "l1_i2h_bias [12]", "l1_h2h_bias [12]",
                  "r1_i2h_weight [12, 6]", "r1_h2h_weight [12, 3]", "r1_i2h_bias [12]", "r1_h2h_bias [12]"));
  EXPECT_THAT(parameters["r1_i2h_bias"].data(cpu(0)).ToVector(), Each(1));
  EXPECT_THAT(parameters["r1_h2h_bias"].data(cpu(0)).ToVector(), Each(0));
  EXPECT_EQ(parameters["l0_i2h_bias"].wd_mult(), 0);
  EXPECT_EQ(parameters["l0_i2h_weight"].wd_mult(), 1);
}

TEST(RecurrentLayersTest, OperationsRefuseWhatDoesNotFit) {
  const auto why = [](const std::function<void()>& call) {
    return ErrorOf(ErrorCode::kInvalidArgument, call);
  };
  const NDArray x({2, 3, 5});
  const ops::RecurrentWeights good{NDArray({6, 5}), NDArray({6, 2})};
  EXPECT_EQ(ops::Gru(x, good).outputs.shape(), (Shape{2, 3, 2}));  // without biases
  EXPECT_THAT(why([&] { ops::Lstm(x, good); }), HasSubstr("Lstm: needs an h2h_weight [4 hidden, hidden]"));
  EXPECT_THAT(why([&] {
                ops::Gru(x, {NDArray({6, 4}), NDArray({6, 2})});
              }),
              HasSubstr("x [2, 3, 5] and h2h_weight [6, 2] need an i2h_weight [6, 5] and got [6, 4]"));
  EXPECT_THAT(why([&] {
                ops::Gru(x, {good.i2h_weight, good.h2h_weight, NDArray({5})});
              }),
              HasSubstr("needs biases [6] and got [5]"));
  EXPECT_THAT(why([&] {
                ops::Gru(x, good, {.hidden = NDArray({2, 3})});
              }),
              HasSubstr("needs states [2, 2] and got [2, 3]"));
  EXPECT_THAT(why([&] { ops::Gru(x, good, {.cell = NDArray({2, 2})}); }), HasSubstr("has no cell state"));
}

TEST(SequenceTest, LengthsEndWithTheLastWord) {
  const NDArray ids = NDArray::From({3, 0, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1}, {3, 4});
  EXPECT_THAT(ops::SequenceLengths(ids).ToVector<int32_t>(), ElementsAre(3, 0, 4));
  EXPECT_THAT(ops::SequenceLengths(ids, 1).ToVector<int32_t>(), ElementsAre(4, 4, 0));
  const std::vector<uint8_t> bytes = {255, 0, 0, 7};
  EXPECT_THAT(ops::SequenceLengths(NDArray::From(std::span(bytes), {2, 2})).ToVector<int32_t>(),
              ElementsAre(1, 2));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { ops::SequenceLengths(NDArray({3})); }),
              HasSubstr("needs ids [n, steps] and got [3]"));
}

TEST(SequenceTest, LastStep) {
  SequenceLast last;
  EXPECT_THAT(last(NDArray::From({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})).ToVector(), ElementsAre(3, 4, 7, 8));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        last(NDArray({2, 0, 3}));
                      }),
              HasSubstr("SequenceLast expects input of shape [batch, steps, ...] and got [2, 0, 3]"));
}

}  // namespace
}  // namespace sluice::nn
