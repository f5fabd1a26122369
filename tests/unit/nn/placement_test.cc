// Tests sluice/nn/placement.h: texts that name a placement, stages, and a network on two contexts, which
// computes what it computes on one.
#include "sluice/nn/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/autograd.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"

namespace sluice::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Sequential Layers() {
  Sequential layers;
  layers.Add("first", Dense(7)).Add("tanh", Activation::Tanh()).Add("last", Dense(3));
  return layers;
}

std::string ErrorOfText(const std::string& text) {
  return ErrorOf(ErrorCode::kInvalidArgument, [&] { Placement::Parse(text); });
}

TEST(PlacementTest, IsReadFromText) {
  EXPECT_THAT(Placement::Parse("embed=cpu(0), layer0 = gpu(2) ,decode=cpu(11)").contexts(),
              ElementsAre(Pair("decode", cpu(11)), Pair("embed", cpu(0)), Pair("layer0", gpu(2))));
}

TEST(PlacementTest, OtherTextsAreRefused) {
  EXPECT_THAT(ErrorOfText("cpu(0)"), HasSubstr("'cpu(0)' of the placement 'cpu(0)' names no group"));
  EXPECT_THAT(ErrorOfText(""), HasSubstr("names no group"));
  EXPECT_THAT(ErrorOfText("a=cpu(0),=cpu(1)"), HasSubstr("'=cpu(1)' of the placement"));
  for (const char* context : {"cpu", "cpu()", "cpu(-1)", "cpu(1", "tpu(0)", "cpu(0)x", "cpu(99999999999)"}) {
    EXPECT_THAT(ErrorOfText(std::string("a=") + context),
                HasSubstr(std::string("the context '") + context + "' of the group 'a'"));
  }
  EXPECT_THAT(ErrorOfText("a=cpu(0),a=cpu(1)"), HasSubstr("has the group 'a' twice"));
}

TEST(GroupsOfTest, ALayerWithoutParametersIsOfTheGroupBefore) {
  Sequential layers;
  layers.Add("flatten", Flatten())
      .Add("tanh", Activation::Tanh())
      .Add("a", Dense(2))
      .Add("relu", Activation::Relu());
  layers.Add("drop", Dropout(0.5)).Add("b", Dense(2)).Add("last", Activation::Relu());
  EXPECT_THAT(GroupsOf(layers), ElementsAre("a", "a", "a", "a", "a", "b", "b"));
  layers[1].SetGroup("front");
  layers[4].SetGroup("b");
  EXPECT_THAT(GroupsOf(layers), ElementsAre("front", "front", "a", "a", "b", "b", "b"));
  Sequential plain;
  plain.Add("tanh", Activation::Tanh()).Add("relu", Activation::Relu());
  EXPECT_THAT(GroupsOf(plain), ElementsAre("tanh", "tanh"));
}

TEST(PlacedSequentialTest, HasAStageForNeighboursOnOneContext) {
  const PlacedSequential net(Layers(), Placement::Parse("first=cpu(1),last=cpu(0)"));
  ASSERT_EQ(net.stages().size(), 2u);
  EXPECT_EQ(net.stages()[0].context, cpu(1));
  EXPECT_EQ(net.stages()[0].end, 2u);
  EXPECT_EQ(net.stages()[1].begin, 2u);
  EXPECT_EQ(PlacedSequential(Layers(), Placement::Parse("first=cpu(1),last=cpu(1)")).stages().size(), 1u);
}

TEST(PlacedSequentialTest, ParametersLieOnTheContextsOfTheirLayers) {
  PlacedSequential net(Layers(), Placement::Parse("first=cpu(0),last=cpu(1)"));
  net.Initialize(nullptr, 5);
  net(NDArray({2, 4}));
  const ParameterDict parameters = net.CollectParams();
  EXPECT_THAT(parameters["first.weight"].list_ctx(), ElementsAre(cpu(0)));
  EXPECT_THAT(parameters["last.weight"].list_ctx(), ElementsAre(cpu(1)));
}

TEST(PlacedSequentialTest, ComputesWhatTheSequentialComputes) {
  Sequential whole = Layers();
  whole.CollectParams().Initialize({cpu(0)}, nullptr, 5);
  PlacedSequential net(Layers(), Placement::Parse("first=cpu(1),last=cpu(0)"));
  net.Initialize(nullptr, 5);
  const NDArray x = NDArray::From(std::vector<float>{1, 2, -3, 4, 0.5f, -1, 2, 8}, {2, 4});
  for (Layer* const layer : {static_cast<Layer*>(&whole), static_cast<Layer*>(&net)}) {
    const autograd::RecordScope record;
    autograd::Backward((*layer)(x));
  }
  EXPECT_EQ(net(x).ToVector(), whole(x).ToVector());
  for (const auto& parameter : whole.CollectParams()) {
    Parameter& placed = net.CollectParams()[parameter->name()];
    EXPECT_EQ(placed.list_grad()[0].ToVector(), parameter->list_grad()[0].ToVector()) << parameter->name();
  }
}

TEST(PlacedSequentialTest, APlacementThatDoesNotFitIsRefused) {
  const auto error = [](const char* placement) {
    return ErrorOf(ErrorCode::kInvalidArgument,
                   [&] { PlacedSequential(Layers(), Placement::Parse(placement)); });
  };
  EXPECT_THAT(error("first=cpu(0)"),
              HasSubstr("no context for the group 'last'; the groups of the layers are"));
  EXPECT_THAT(error("first=cpu(0),last=cpu(1),tanh=cpu(1)"),
              HasSubstr("puts the group 'tanh' on cpu(1), and no layer is of it"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { PlacedSequential(Sequential(), {}); }),
              HasSubstr("there are no layers"));
}

TEST(PlacedSequentialTest, LayersOnTwoContextsShareNoParameter) {
  const auto layers = [] {
    Dense a(4, {.in_units = 4}), b(4, {.in_units = 4});
    b.ShareParameters(a);
    Sequential both;
    both.Add("a", std::move(a)).Add("b", std::move(b));
    return both;
  };
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] { PlacedSequential(layers(), Placement::Parse("a=cpu(0),b=cpu(1)")); }),
              HasSubstr("layer 'b' on cpu(1) shares parameter 'a.weight' with a layer on cpu(0)"));
  PlacedSequential net(layers(), Placement::Parse("a=cpu(1),b=cpu(1)"));
  net.Initialize();
  EXPECT_EQ(net.CollectParams()["a.weight"].list_ctx()[0], cpu(1));
}

TEST(PlacedSequentialTest, IsInitialisedOnce) {
  PlacedSequential net(Layers(), Placement::Parse("first=cpu(0),last=cpu(1)"));
  net.Initialize();
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { net.Initialize(); }),
              HasSubstr("parameter 'first.weight' is initialised already"));
}

TEST(PlacedSequentialTest, WhatHasBeenMovedFromIsRefused) {
  PlacedSequential net(Layers(), Placement::Parse("first=cpu(0),last=cpu(1)"));
  const PlacedSequential other = std::move(net);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition,
                      [&] {
                        net(NDArray({1, 4}));
                      }),
              HasSubstr("has been moved from"));
}

TEST(PlacedSequentialTest, AStageThatIsNotThereIsRefused) {
  PlacedSequential net(Layers(), Placement::Parse("first=cpu(0),last=cpu(1)"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        net.ForwardStage(2, NDArray({1, 4}));
                      }),
              HasSubstr("has 2 stages and no stage 2"));
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { net(NDArray()); }), HasSubstr("its input"));
}

}  // namespace
}  // namespace sluice::nn
