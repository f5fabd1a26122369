// Tests sluice/placement_plan.h: cuts against the best of all cuts, and costs that are measured.
#include "sluice/placement_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/models.h"
#include "sluice/nn.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

std::vector<Context> Cpus(int count) {
  std::vector<Context> contexts;
  for (int i = 0; i < count; ++i) contexts.push_back(cpu(i));
  return contexts;
}

std::vector<double> SecondsOf(const PlacementPlan& plan) {
  std::vector<double> seconds;
  for (const PlacementPlan::Stage& stage : plan.stages) seconds.push_back(stage.seconds);
  return seconds;
}

TEST(PlanPlacementTest, NeighboursLieTogetherAndTheWorkIsEven) {
  const std::vector<GroupCost> costs = {{"embed", 1, 100, 10},
                                        {"lstm0", 3, 20, 5},
                                        {"lstm1", 3, 20, 5},
                                        {"lstm2", 3, 20, 5},
                                        {"decode", 4, 200, 7}};
  const PlacementPlan plan = PlanPlacement(costs, Cpus(2), {.micro_batches = 8});
  ASSERT_THAT(plan.stages, SizeIs(2));
  EXPECT_THAT(plan.stages[0].groups, ElementsAre("embed", "lstm0", "lstm1"));
  EXPECT_THAT(plan.stages[1].groups, ElementsAre("lstm2", "decode"));
  EXPECT_THAT(SecondsOf(plan), ElementsAre(7, 7));
  EXPECT_EQ(plan.stages[0].parameter_bytes, 140);
  EXPECT_EQ(plan.stages[0].activation_bytes, 3 * 20);  // the first of two stages keeps three micro-batches
  EXPECT_EQ(plan.stages[1].activation_bytes, 2 * 12);
  EXPECT_DOUBLE_EQ(plan.ExpectedShare(), 9.0 / 8 / 2);
  EXPECT_THAT(plan.placement().contexts(), Contains(Pair("lstm2", cpu(1))));
  EXPECT_THAT(plan.placement().contexts(), SizeIs(5));
}

// The slowest stage of every way to cut `seconds` into `stages`, tried one by one.
double LeastSlowest(const std::vector<double>& seconds, size_t begin, size_t stages) {
  if (stages == 1)
    return std::accumulate(seconds.begin() + static_cast<std::ptrdiff_t>(begin), seconds.end(), 0.0);
  double least = std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t end = begin + 1; end + stages - 1 <= seconds.size(); ++end) {
    sum += seconds[end - 1];
    least = std::min(least, std::max(sum, LeastSlowest(seconds, end, stages - 1)));
  }
  return least;
}

TEST(PlanPlacementTest, NoCutIsFaster) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<GroupCost> costs;
    std::vector<double> seconds;
    for (size_t i = 0; i < 1 + rng.Below(9); ++i) {
      seconds.push_back(static_cast<double>(rng.Below(20)));
      costs.push_back({StrCat("layer", i), seconds.back()});
    }
    const int contexts = 1 + static_cast<int>(rng.Below(5));
    const PlacementPlan plan = PlanPlacement(costs, Cpus(contexts));
    ASSERT_EQ(plan.stages.size(), std::min(costs.size(), static_cast<size_t>(contexts)));
    ASSERT_EQ(std::ranges::max(SecondsOf(plan)), LeastSlowest(seconds, 0, plan.stages.size())) << round;
    ASSERT_EQ(plan.placement().contexts().size(), costs.size());
  }
}

TEST(PlanPlacementTest, OtherStagesAreEvenBesideASlowOne) {
  std::vector<GroupCost> costs = {{"slow", 9}};
  for (int i = 0; i < 6; ++i) costs.push_back({StrCat("layer", i), 1});
  EXPECT_THAT(SecondsOf(PlanPlacement(costs, Cpus(4))), ElementsAre(9, 2, 2, 2));
}

TEST(PlanPlacementTest, StagesStayWithinTheirMemory) {
  const std::vector<GroupCost> costs = {
      {"a", 1, 100, 10}, {"b", 1, 100, 10}, {"c", 1, 100, 10}, {"d", 1, 100, 10}};
  PlanOptions options{.micro_batches = 2, .memory = {130, 400}};
  EXPECT_THAT(SecondsOf(PlanPlacement(costs, Cpus(2), options)), ElementsAre(1, 3));
  options.memory = {400, 130};
  EXPECT_THAT(SecondsOf(PlanPlacement(costs, Cpus(2), options)), ElementsAre(3, 1));
  options.memory = {130, 130};
  EXPECT_THAT(
      ErrorOf(ErrorCode::kResourceExhausted, [&] { PlanPlacement(costs, Cpus(2), options); }),
      HasSubstr("no cut is within the memory (cpu(0) 130 B, cpu(1) 130 B): the parameters take 400 B"));
}

TEST(PlanPlacementTest, AGroupThatComesApartStaysTogether) {
  const std::vector<GroupCost> costs = {{"tied", 1}, {"a", 1}, {"b", 1}, {"tied", 1}, {"last", 1}};
  const PlacementPlan plan = PlanPlacement(costs, Cpus(3));
  ASSERT_THAT(plan.stages, SizeIs(2));
  EXPECT_THAT(plan.stages[0].groups, ElementsAre("tied", "a", "b"));
  EXPECT_THAT(plan.stages[1].groups, ElementsAre("last"));
}

TEST(PlanPlacementTest, WrongArgumentsAreRefused) {
  const auto error = [](const std::vector<GroupCost>& costs, const std::vector<Context>& contexts,
                        const PlanOptions& options) {
    return ErrorOf(ErrorCode::kInvalidArgument, [&] { PlanPlacement(costs, contexts, options); });
  };
  const std::vector<GroupCost> one = {{"a", 1}};
  EXPECT_THAT(error({}, Cpus(1), {}), HasSubstr("there are no groups"));
  EXPECT_THAT(error(one, {}, {}), HasSubstr("there are no contexts"));
  EXPECT_THAT(error(one, {cpu(1), cpu(1)}, {}), HasSubstr("cpu(1) comes twice"));
  EXPECT_THAT(error(one, Cpus(1), {.memory = {1, 2}}), HasSubstr("memory has 2 bounds for 1 contexts"));
  EXPECT_THAT(error(one, Cpus(1), {.micro_batches = 0}), HasSubstr("micro_batches is 0"));
  EXPECT_THAT(error({{"a", -1}}, Cpus(1), {}), HasSubstr("the cost of the group 'a'"));
}

TEST(PlanPlacementTest, TheTableHasALineForEachStageWithin80Columns) {
  std::vector<GroupCost> costs;
  for (int i = 0; i < 12; ++i) costs.push_back({StrCat("layer", i), 1, 3 << 20, 1 << 10});
  const std::string text = PlanPlacement(costs, Cpus(2), {.micro_batches = 8}).ToText();
  EXPECT_THAT(text, HasSubstr("cpu(1)      50 %"));
  EXPECT_THAT(text, HasSubstr("18 MiB"));
  EXPECT_THAT(text, HasSubstr("a step of 8 micro-batches takes 0.56 of one on one context"));
  for (const std::string& line : StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

TEST(PlanPlacementTest, ACutThatGainsNothingSaysSo) {
  const auto text = [](double small) {
    return PlanPlacement(std::vector<GroupCost>{{"a", small}, {"b", 1}}, Cpus(2), {.micro_batches = 2})
        .ToText();
  };
  EXPECT_THAT(text(0.1), HasSubstr("this cut gains nothing"));
  EXPECT_THAT(text(1), ::testing::Not(HasSubstr("gains nothing")));
}

nn::Sequential PlannedLayers() {
  nn::Sequential layers;
  layers.Add("small", nn::Dense(4, {.in_units = 600}))
      .Add("tanh", nn::Activation::Tanh())
      .Add("wide", nn::Dense(3000))
      .Add("large", nn::Dense(2000))
      .Add("decode", nn::Dense(5));
  return layers;
}

TEST(MeasureGroupsTest, FindsParametersActivationsAndWhatTakesLong) {
  const nn::Sequential layers = PlannedLayers();
  NDArray x({64, 600});
  x.Fill(0.5);
  const std::vector<GroupCost> costs =
      MeasureGroups(layers, x, NDArray({64}), nn::SoftmaxCrossEntropyLoss(), {.states_of_weight = 2});
  ASSERT_THAT(costs, SizeIs(4));
  EXPECT_EQ(costs[0].group, "small");
  EXPECT_EQ(costs[0].parameter_bytes, 4 * 4 * (600 * 4 + 4));  // weight, gradient and two states
  EXPECT_EQ(costs[2].parameter_bytes, 4 * 4 * (3000 * 2000 + 2000));
  EXPECT_GE(costs[1].activation_bytes, 4 * 64 * 3000);
  EXPECT_LE(costs[1].activation_bytes, 2 * 4 * 64 * 3000);
  EXPECT_EQ(std::ranges::max_element(costs, {}, &GroupCost::seconds)->group, "large");
}

TEST(MeasureGroupsTest, TriesOutShapesAndFrozenLayers) {
  nn::Sequential layers;
  layers.Add("embed", nn::Embedding(20, 6)).Add("lstm", nn::Lstm(8)).Add("last", nn::SequenceLast());
  layers.Add("decode", nn::Dense(5));
  layers.CollectParams().Initialize();
  layers.CollectParams()["embed.weight"].SetGradReq(autograd::GradReq::kNull);
  const std::vector<GroupCost> costs =
      MeasureGroups(layers, NDArray({3, 7}), NDArray({3}), nn::SoftmaxCrossEntropyLoss());
  ASSERT_THAT(costs, SizeIs(3));
  EXPECT_EQ(costs[0].parameter_bytes, 4 * 20 * 6);  // no gradient, no states
}

TEST(MeasureGroupsTest, ARowSparseGradientTakesNoTable) {
  const nn::Sequential layers = nn::TextMean(50, 4, 6, /*sparse_grad=*/true);
  const std::vector<GroupCost> costs = MeasureGroups(layers, NDArray({3, 7}), NDArray({3}),
                                                     nn::SoftmaxCrossEntropyLoss(), {.states_of_weight = 1});
  EXPECT_EQ(costs[0].parameter_bytes, 2 * 4 * 50 * 6);  // the weight and one state
}

TEST(MeasureGroupsTest, WrongArgumentsAreRefused) {
  const nn::SoftmaxCrossEntropyLoss loss;
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] { MeasureGroups(nn::Sequential(), NDArray({1}), NDArray({1}), loss); }),
              HasSubstr("there are no layers"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        MeasureGroups(PlannedLayers(), NDArray({2, 600}), NDArray({2}), loss, {.repeats = 0});
                      }),
              HasSubstr("repeats is 0"));
}

}  // namespace
}  // namespace sluice
