// Recurrent layers in networks: contexts and devices, dropout, states from piece to piece, what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "unit/expect_error.h"
#include "unit/nn/recurrent_fixture.h"

namespace sluice::nn {
namespace {

using reference::Random;
using reference::Tensor;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using RecurrentUseTest = RecurrentTest;
INSTANTIATE_TEST_SUITE_P(Of, RecurrentUseTest, ::testing::Values("tanh", "relu", "lstm", "gru"),
                         [](const auto& info) { return info.param; });

// A layer for each context is the stack of them.
TEST_P(RecurrentUseTest, LayersOnSeveralContexts) {
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
TEST_P(RecurrentUseTest, DevicesTogetherGiveTheGradientOfOne) {
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

TEST_P(RecurrentUseTest, DropoutIsBetweenLayersWhileTraining) {
  const auto layer = Make({GetParam(), 3, 4, 2}, 0.5), plain = Make({GetParam(), 3, 4, 1}, 0.5);
  const NDArray x = reference::ToNDArray(Random({2, 3, 3}, &rng_));
  for (auto* any : {layer.get(), plain.get()}) any->CollectParams().Initialize({cpu(0)}, nullptr, 4);
  const std::vector<float> evaluated = (*layer)(x).ToVector(), alone = (*plain)(x).ToVector();
  const autograd::RecordScope record;
  EXPECT_NE((*layer)(x).ToVector(), evaluated);
  EXPECT_EQ((*plain)(x).ToVector(), alone);  // the last layer's outputs stay
}

// A text in pieces that hand on their states is the text; gradients end where a state was detached.
TEST_P(RecurrentUseTest, StatesCarryOn) {
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
    autograd::Backward(output.outputs);  // this piece's alone
    pieces.push_back(output.outputs);
    states = output.states();
    for (NDArray& state : states) state = state.Detach();
  }
  EXPECT_THAT(ops::Concat(pieces, 1).ToVector(), ::testing::Pointwise(::testing::FloatNear(1e-6f), whole));
}

// Steps that hand on their states are the layer, and so are their gradients.
TEST_P(RecurrentUseTest, StepsAreTheSequence) {
  const auto layer = Make({GetParam(), 2, 3, 2});
  layer->CollectParams().Initialize();
  NDArray text = reference::ToNDArray(Random({2, 5, 2}, &rng_));
  autograd::AttachGrad(text);
  const auto gradients = [&](const std::function<NDArray()>& forward) {
    std::vector<std::vector<float>> values;
    {
      const autograd::RecordScope record;
      const NDArray y = forward();
      autograd::Backward(y * y);
      values.push_back(y.ToVector());
    }
    values.push_back(autograd::Grad(text).ToVector());
    for (const auto& parameter : layer->CollectParams())
      values.push_back(parameter->list_grad()[0].ToVector());
    return values;
  };
  const auto whole = gradients([&] { return (*layer)(text); });
  const auto steps = gradients([&] {
    std::vector<NDArray> states, outputs;
    for (int64_t step = 0; step < 5; ++step) {
      const RecurrentLayer::Output output =
          layer->Step(ops::Reshape(ops::Slice(text, 1, step, step + 1), {2, 2}), states);
      states = output.states();
      outputs.push_back(ops::Reshape(output.outputs, {2, 1, 3}));
    }
    return ops::Concat(outputs, 1);
  });
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_THAT(steps[i], ::testing::Pointwise(::testing::FloatNear(1e-5f), whole[i])) << i;
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { layer->Step(text); }), HasSubstr("expects a step"));
  const auto both = Make({GetParam(), 2, 3, 1, true});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        both->Step(NDArray({2, 2}));
                      }),
              HasSubstr("is bidirectional"));
}

RecurrentOptions Carrying() {
  RecurrentOptions options;
  options.num_layers = 2;
  options.carries_state = true;
  return options;
}

// Forward by forward, in training and out of it, on two contexts and for two places in the batch.
TEST(CarriedStatesTest, AreThoseOfTheForwardBefore) {
  Gru carrying(3, Carrying()), plain(3, {.num_layers = 2});
  for (Gru* layer : {&carrying, &plain}) layer->CollectParams().Initialize({cpu(0), cpu(1)}, nullptr, 4);
  Rng rng(2);
  const NDArray text = reference::ToNDArray(Random({2, 6, 2}, &rng));
  const std::vector<float> whole = plain(text).ToVector();
  for (const Context context : {cpu(0), cpu(1)}) {
    for (const uint64_t first_sample : {0, 2}) {
      for (const bool training : {true, false}) {
        std::vector<NDArray> pieces;
        for (int64_t piece = 0; piece < 3; ++piece) {
          const autograd::RecordScope record(training);
          const autograd::SampleScope samples(first_sample);
          pieces.push_back(carrying(ops::Slice(text, 1, 2 * piece, 2 * piece + 2).AsInContext(context)));
        }
        autograd::Backward(pieces.back());  // ends at the beginning of its piece
        EXPECT_THAT(ops::Concat(pieces, 1).ToVector(),
                    ::testing::Pointwise(::testing::FloatNear(1e-6f), whole));
      }
    }
  }
}

TEST(CarriedStatesTest, AreForgottenApartInTrainingAndElsewhere) {
  Lstm layer(3, Carrying());
  layer.CollectParams().Initialize();
  Rng rng(2);
  const NDArray x = reference::ToNDArray(Random({2, 4, 2}, &rng));
  const auto forward = [&](bool training) {
    const autograd::RecordScope record(training);
    return layer(x).ToVector();
  };
  const std::vector<float> first = forward(true), second = forward(true);
  EXPECT_NE(first, second);
  EXPECT_EQ(forward(false), first);
  layer.ForgetStates(true);
  EXPECT_EQ(forward(true), first);
  EXPECT_EQ(forward(false), second);
  EXPECT_THAT(
      layer(ops::Slice(x, 0, 0, 1)).ToVector(),
      ::testing::Pointwise(::testing::FloatNear(1e-6f), std::vector(first.begin(), first.begin() + 12)));
  RecurrentOptions both = Carrying();
  both.bidirectional = true;
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Lstm(3, both); }),
              ::testing::HasSubstr("a bidirectional layer carries no state"));
}

// What one network has carried, another goes on from, each place of the batch with its own and on any
// context.
TEST(CarriedStatesTest, GoOnInAnotherNetwork) {
  const auto make = [](Context context) {
    Sequential net;
    net.Add("lower", Lstm(3, Carrying())).Add("upper", Gru(3, Carrying()));
    net.CollectParams().Initialize({context}, nullptr, 4);
    return net;
  };
  Rng rng(2);
  const NDArray text = reference::ToNDArray(Random({2, 4, 2}, &rng));
  const auto forward = [&](Sequential& net, uint64_t first_sample, int64_t piece, Context context) {
    const autograd::RecordScope record;
    const autograd::SampleScope samples(first_sample);
    return net(ops::Slice(text, 1, 2 * piece, 2 * piece + 2).AsInContext(context)).ToVector();
  };
  Sequential net = make(cpu(0)), other = make(cpu(1)), plain;
  plain.Add("lower", Lstm(3));
  EXPECT_TRUE(net.CarriesStates());
  EXPECT_FALSE(plain.CarriesStates());
  for (const uint64_t place : {0, 2}) forward(net, place, static_cast<int64_t>(place) / 2, cpu(0));
  CarriedStates states;
  net.AddStatesTo(&states);
  EXPECT_EQ(states.size(), 2u * (2 + 1));  // two places; hidden and cell, hidden
  states["elsewhere/0/0"] = NDArray({1});
  states["lower/no number/0"] = NDArray({1});
  other.SetStates(states);
  for (const uint64_t place : {2, 0})
    EXPECT_EQ(forward(other, place, 1, cpu(1)), forward(net, place, 1, cpu(0))) << "place " << place;

  // One forward takes both places, which two have written, and another one half of a place.
  NDArray both = NDArray::Empty({4, 2, 2}, cpu(0)), half = NDArray::Empty({1, 2, 2}, cpu(0));
  both.Fill(0.5);
  half.Fill(0.5);
  const auto outputs = [&](const NDArray& x, uint64_t first_sample) {
    Sequential whole = make(cpu(0));
    whole.SetStates(states);
    const autograd::RecordScope record;
    const autograd::SampleScope samples(first_sample);
    return whole(x).ToVector();
  };
  const std::vector<float> of_both = outputs(both, 0), of_half = outputs(half, 3), of_none = outputs(half, 4);
  EXPECT_THAT(of_half, ::testing::Pointwise(::testing::FloatNear(1e-6f),
                                            std::vector<float>(of_both.end() - 6, of_both.end())));
  Sequential zeros = make(cpu(0));
  EXPECT_EQ(of_none, zeros(half).ToVector());
  EXPECT_NE(of_half, of_none);
  other.SetStates(states);
  other.ForgetStates(/*training=*/true);
  Sequential fresh = make(cpu(1));
  EXPECT_EQ(forward(other, 0, 1, cpu(1)), forward(fresh, 0, 1, cpu(1)));
}

TEST_P(RecurrentUseTest, BFloat16WeightsComputeInFloat32) {
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

TEST_P(RecurrentUseTest, Refusals) {
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
