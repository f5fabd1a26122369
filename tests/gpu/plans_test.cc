// cuDNN has a plan for every convolution of our models on the cards whose descriptions lie in devices/. This
// needs no card and no driver. A card may have more plans: those of some engines need the driver.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "sluice/models.h"
#include "tensor/cuda/cudnn_graph.h"
#include "unit/expect_error.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kMostWorkspace = int64_t{256} << 20;  // docs/design/gpu.md, "Convolutions"
constexpr int64_t kBatch = 64, kWords = 64;

ConvShape Images(int64_t channels, int64_t size, int64_t out, WindowShape window) {
  return {kBatch, channels, size, size, out, window};
}
WindowShape Square(int64_t size, int64_t stride = 1, int64_t pad = 0) {
  return {size, size, stride, stride, pad, pad};
}

const std::map<std::string_view, std::vector<ConvShape>>& ShapesOfModels() {
  static const std::vector<ConvShape> lenet = {Images(1, 28, 20, Square(5)), Images(20, 12, 50, Square(5))};
  static const std::map<std::string_view, std::vector<ConvShape>> all = {
      {"lenet", lenet},
      {"lenet_avg", lenet},
      {"gluon_lenet", {Images(1, 28, 6, Square(5)), Images(6, 12, 16, Square(3))}},
      {"resnet20",
       {Images(3, 32, 16, Square(3, 1, 1)), Images(16, 32, 16, Square(3, 1, 1)),
        Images(16, 32, 32, Square(3, 2, 1)), Images(16, 32, 32, Square(1, 2)),
        Images(32, 16, 32, Square(3, 1, 1)), Images(32, 16, 64, Square(3, 2, 1)),
        Images(32, 16, 64, Square(1, 2)), Images(64, 8, 64, Square(3, 1, 1))}},
      {"text_cnn",
       {{kBatch, 1, kWords, 64, 100, {3, 64, 1, 1, 1, 0}},
        {kBatch, 1, kWords, 64, 100, {4, 64, 1, 1, 2, 0}},
        {kBatch, 1, kWords, 64, 100, {5, 64, 1, 1, 2, 0}}}}};
  return all;
}

// What layers offer besides.
std::vector<ConvShape> OtherShapes() {
  ConvShape grouped = Images(32, 28, 64, Square(3, 1, 1)), by_channel = Images(32, 28, 32, Square(3, 1, 1));
  grouped.groups = 4;
  by_channel.groups = 32;
  const ConvShape dilated = Images(16, 28, 16, {3, 3, 1, 1, 2, 2, 2, 2});
  const ConvShape uneven = {kBatch, 8, 20, 33, 12, {3, 5, 2, 1, 0, 2, 1, 1}};
  return {grouped, by_channel, dilated, uneven};
}

std::string Text(const ConvShape& s) {
  std::ostringstream out;
  out << s.in_channels << "x" << s.in_height << "x" << s.in_width << "-" << s.out_channels << ", "
      << s.window.height << "x" << s.window.width << "/" << s.window.stride_height << ", " << s.groups
      << " groups";
  return out.str();
}

std::string JsonOfFile(const std::string& card) {
  std::ifstream file(SLUICE_DEVICES "/" + card + ".json");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << card;
  return text.str();
}

// The shapes above are those of the models: each has a weight of that shape, and no other.
TEST(ConvolutionPlans, AreForTheConvolutionsOfOurModels) {
  for (const std::string_view name : nn::ModelNames()) {
    SCOPED_TRACE(name);
    nn::Sequential net = nn::CreateModel(name);
    net.CollectParams().Initialize();
    const bool text = name.starts_with("text");
    net(text ? NDArray({2, kWords}) : name == "resnet20" ? NDArray({2, 3, 32, 32}) : NDArray({2, 1, 28, 28}));
    std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> weights, listed;
    for (const auto& parameter : net.CollectParams()) {
      const Shape& shape = parameter->shape();
      if (shape.ndim() == 4) weights.emplace(shape[0], shape[1], shape[2], shape[3]);
    }
    const auto shapes = ShapesOfModels().find(name);
    if (shapes != ShapesOfModels().end()) {
      for (const ConvShape& s : shapes->second)
        listed.emplace(s.out_channels, s.in_channels / s.groups, s.window.height, s.window.width);
    }
    EXPECT_EQ(weights, listed);
  }
}

class PlansOfCard : public ::testing::TestWithParam<const char*> {
 protected:
  PlansOfCard() : library_(LoadCudnn()), card_(CardFromJson(*library_, JsonOfFile(GetParam()))) {}
  void ExpectPlans(ConvShape shape) {
    for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kTFloat32, Arithmetic::kBFloat16})
      for (const auto pass :
           {ConvolutionPass::kForward, ConvolutionPass::kGradX, ConvolutionPass::kGradWeight}) {
        shape.arithmetic = arithmetic;
        // Strict float32 has its engines for rows of channels, tensor cores for channels last.
        const auto layout =
            arithmetic == Arithmetic::kFloat32 ? ImageLayout::kRowMajor : ImageLayout::kChannelsLast;
        for (const bool aligned : {true, false}) {
          const auto plans = FindPlans(card_, {shape, pass, layout, aligned}, kMostWorkspace, 1);
          EXPECT_EQ(plans.size(), 1u)
              << Text(shape) << ", arithmetic " << static_cast<int>(arithmetic) << ", pass "
              << static_cast<int>(pass) << (aligned ? "" : ", unaligned");
          for (const ConvolutionPlan& plan : plans) EXPECT_LE(plan.workspace, kMostWorkspace);
        }
      }
  }

  const std::shared_ptr<const Cudnn> library_;
  const CudnnDescriptor card_;
};
INSTANTIATE_TEST_SUITE_P(Cards, PlansOfCard, ::testing::Values("a100", "h100", "h200"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PlansOfCard, AreFoundForEveryConvolutionOfOurModels) {
  std::set<ConvShape> shapes;
  for (const auto& [name, those] : ShapesOfModels()) shapes.insert(those.begin(), those.end());
  for (const ConvShape& shape : shapes) ExpectPlans(shape);
}

TEST_P(PlansOfCard, AreFoundForGroupsDilationAndUnevenWindows) {
  for (const ConvShape& shape : OtherShapes()) ExpectPlans(shape);
}

// Strict plans are among the others' and are fewer.
TEST_P(PlansOfCard, OfStrictFloat32UseNoTensorCores) {
  ConvolutionProblem problem = {.shape = Images(64, 56, 64, Square(3, 1, 1))};
  std::set<int64_t> strict, all;
  for (const auto& plan : FindPlans(card_, problem, kMostWorkspace, 64)) strict.insert(plan.engine);
  problem.shape.arithmetic = Arithmetic::kTFloat32;
  for (const auto& plan : FindPlans(card_, problem, kMostWorkspace, 64)) all.insert(plan.engine);
  EXPECT_FALSE(strict.empty());
  EXPECT_LT(strict.size(), all.size());
}

TEST_P(PlansOfCard, StayWithinTheWorkspaceThatIsGiven) {
  const ConvolutionProblem problem = {.shape = Images(64, 56, 64, Square(3, 1, 1)),
                                      .pass = ConvolutionPass::kGradWeight};
  std::set<int64_t> workspaces;
  for (const auto& plan : FindPlans(card_, problem, kMostWorkspace, 32)) workspaces.insert(plan.workspace);
  ASSERT_GT(workspaces.size(), 1u);
  const int64_t least = *workspaces.begin();
  for (const auto& plan : FindPlans(card_, problem, least, 32)) EXPECT_LE(plan.workspace, least);
  EXPECT_LE(FindPlans(card_, problem, kMostWorkspace, 2).size(), 2u);
}

TEST_P(PlansOfCard, TheCardIsDescribedAsItWasGiven) {
  const std::string json = JsonOf(card_);
  EXPECT_EQ(JsonOf(CardFromJson(*library_, json)), json);
}

TEST(ConvolutionPlans, WhatIsNoDescriptionIsAnErrorThatNamesTheCall) {
  const std::shared_ptr<const Cudnn> library = LoadCudnn();
  const std::string message =
      ErrorOf(ErrorCode::kUnavailable, [&] { CardFromJson(*library, "{\"warpSize\": 32}"); });
  EXPECT_NE(message.find(" failed: CUDNN_STATUS_"), std::string::npos) << message;
}

}  // namespace
}  // namespace sluice::cuda
