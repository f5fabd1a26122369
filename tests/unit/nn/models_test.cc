// Tests the models: names, shapes and numbers of parameters as published, the same gradient on one device or
// many, and that each learns.
#include "sluice/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/split.h"

namespace sluice::nn {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> NamesAndShapes(Sequential net) {
  const ParameterDict parameters = net.CollectParams();
  parameters.Initialize();
  EXPECT_EQ(net(NDArray({2, 1, 28, 28})).shape(), (Shape{2, 10}));
  std::vector<std::string> lines;
  for (const auto& parameter : parameters)
    lines.push_back(parameter->name() + " " + parameter->shape().ToString());
  return lines;
}

const std::vector<std::string> kLenet = {
    "conv1.weight [20, 1, 5, 5]", "conv1.bias [20]", "conv2.weight [50, 20, 5, 5]", "conv2.bias [50]",
    "fc1.weight [500, 800]",      "fc1.bias [500]",  "fc2.weight [10, 500]",        "fc2.bias [10]"};

TEST(ModelsTest, LenetHasItsNamesAndShapes) {
  EXPECT_EQ(NamesAndShapes(Lenet()), kLenet);
  EXPECT_EQ(NamesAndShapes(LenetAvg()), kLenet);
}

TEST(ModelsTest, LenetHas431080Parameters) {
  Sequential net = Lenet();
  net.CollectParams().Initialize();
  net(NDArray({1, 1, 28, 28}));
  int64_t total = 0;
  for (const auto& parameter : net.CollectParams()) total += parameter->shape().size();
  EXPECT_EQ(total, 431080);
}

TEST(ModelsTest, GluonLenetHasItsNamesAndShapes) {
  EXPECT_EQ(NamesAndShapes(GluonLenet()),
            (std::vector<std::string>{"conv1.weight [6, 1, 5, 5]", "conv1.bias [6]",
                                      "conv2.weight [16, 6, 3, 3]", "conv2.bias [16]",
                                      "fc1.weight [120, 400]", "fc1.bias [120]", "fc2.weight [84, 120]",
                                      "fc2.bias [84]", "fc3.weight [10, 84]", "fc3.bias [10]"}));
}

TEST(ModelsTest, MlpHasItsNamesAndShapes) {
  EXPECT_EQ(NamesAndShapes(Mlp()),
            (std::vector<std::string>{"fc1.weight [128, 784]", "fc1.bias [128]", "fc2.weight [64, 128]",
                                      "fc2.bias [64]", "fc3.weight [10, 64]", "fc3.bias [10]"}));
}

TEST(ModelsTest, AreMadeByName) {
  EXPECT_EQ(NamesAndShapes(CreateModel("lenet")), kLenet);
  try {
    CreateModel("alexnet");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("'alexnet'; there are mlp, lenet, lenet_avg, gluon_lenet"));
  }
}

NDArray RandomImages(int64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(n) * 28 * 28);
  for (float& value : values) value = static_cast<float>(rng.Uniform());
  return NDArray::From(std::span<const float>(values), {n, 1, 28, 28});
}

// Gradients of a batch summed over the devices equal those of one device, whatever the cut.
TEST(ModelsTest, DevicesTogetherGiveTheGradientOfOne) {
  const NDArray images = RandomImages(12, 1);
  std::vector<int32_t> classes(12);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i % 10);
  const NDArray labels = NDArray::From(std::span<const int32_t>(classes), {12});
  const auto gradients = [&](const std::vector<Context>& contexts, const std::vector<double>& loads) {
    Sequential net = LenetAvg();
    const ParameterDict parameters = net.CollectParams();
    parameters.Initialize(contexts, nullptr, 7);
    const auto xs = SplitAndLoad(images, contexts, loads), ys = SplitAndLoad(labels, contexts, loads);
    std::vector<NDArray> losses;
    {
      autograd::RecordScope record;
      for (size_t i = 0; i < xs.size(); ++i) losses.push_back(SoftmaxCrossEntropyLoss()(net(xs[i]), ys[i]));
    }
    autograd::Backward(losses);
    std::vector<double> sums;
    for (const auto& parameter : parameters) {
      std::vector<double> sum(static_cast<size_t>(parameter->shape().size()));
      for (const NDArray& gradient : parameter->list_grad()) {
        const std::vector<float> values = gradient.ToVector();
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      }
      sums.insert(sums.end(), sum.begin(), sum.end());
    }
    return sums;
  };
  const std::vector<double> one = gradients({cpu(0)}, {1});
  const std::vector<double> three = gradients({cpu(0), cpu(1), cpu(2)}, {3, 1, 2});
  const std::vector<double> twice_same = gradients({cpu(0), cpu(0)}, {1, 1});
  ASSERT_EQ(one.size(), 431080u);
  double norm = 0, error_three = 0, error_twice = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    norm += one[i] * one[i];
    error_three += (three[i] - one[i]) * (three[i] - one[i]);
    error_twice += (twice_same[i] - one[i]) * (twice_same[i] - one[i]);
  }
  EXPECT_LT(std::sqrt(error_three / norm), 1e-5);
  EXPECT_LT(std::sqrt(error_twice / norm), 1e-5);
}

void SgdStep(const ParameterDict& parameters, float lr) {
  for (const auto& parameter : parameters) {
    for (const Context& context : parameter->list_ctx())
      parameter->data(context) -= parameter->grad(context) * lr;
  }
}

TEST(LearningTest, ASmallNetworkLearnsXor) {
  Sequential net;
  net.Add("hidden", Dense(8)).Add("tanh", Activation::Tanh()).Add("out", Dense(2));
  const ParameterDict parameters = net.CollectParams();
  parameters.Initialize({cpu(0)}, nullptr, 1);
  const NDArray x = NDArray::From({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const std::vector<int32_t> labels = {0, 1, 1, 0};
  const NDArray y = NDArray::From(std::span<const int32_t>(labels), {4});
  for (int step = 0; step < 500; ++step) {
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = SoftmaxCrossEntropyLoss(Reduction::kMean)(net(x), y);
    }
    autograd::Backward({loss});
    SgdStep(parameters, 0.5f);
  }
  EXPECT_LT(SoftmaxCrossEntropyLoss(Reduction::kMean)(net(x), y).ToScalar(), 0.05);
  metric::Accuracy accuracy;
  accuracy.Update(y, net(x));
  EXPECT_EQ(accuracy.value(), 1);
}

TEST(LearningTest, LenetLearnsItsBatchByHeart) {
  Sequential net = Lenet();
  const ParameterDict parameters = net.CollectParams();
  parameters.Initialize({cpu(0)}, nullptr, 1);
  const NDArray x = RandomImages(20, 5);
  std::vector<int32_t> classes(20);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int32_t>(i % 10);
  const NDArray y = NDArray::From(std::span<const int32_t>(classes), {20});
  for (int step = 0; step < 150; ++step) {
    NDArray loss;
    {
      autograd::RecordScope record;
      loss = SoftmaxCrossEntropyLoss()(net(x), y);
    }
    autograd::Backward({loss});
    SgdStep(parameters, 0.1f / 20);
  }
  metric::Accuracy accuracy;
  accuracy.Update(y, net(x));
  EXPECT_EQ(accuracy.value(), 1);
}

// The paper's layers, counted by hand: convolutions, BatchNorm's factors, shortcuts, the last layer.
TEST(ModelsTest, Resnet20HasItsParameters) {
  Sequential net = Resnet20();
  const ParameterDict parameters = net.CollectParams();
  parameters.Initialize();
  EXPECT_EQ(net(NDArray({2, 3, 32, 32})).shape(), (Shape{2, 10}));
  int64_t total = 0, convolutions = 0;
  for (const auto& parameter : parameters) {
    if (!parameter->differentiable()) continue;
    total += parameter->shape().size();
    convolutions += parameter->shape().ndim() == 4;
  }
  EXPECT_EQ(convolutions, 1 + 3 * 3 * 2 + 2);
  EXPECT_EQ(total, (27 * 16 + 6 * 144 * 16) + (144 * 32 + 5 * 288 * 32 + 16 * 32) +
                       (288 * 64 + 5 * 576 * 64 + 32 * 64) + 2 * (7 * 16 + 7 * 32 + 7 * 64) + 650);
  EXPECT_EQ(parameters["stage2.block1.body.conv1.weight"].shape(), (Shape{32, 16, 3, 3}));
  EXPECT_EQ(parameters["stage3.block1.shortcut.conv.weight"].shape(), (Shape{64, 32, 1, 1}));
  EXPECT_EQ(parameters.Find("stage1.block1.shortcut.conv.weight"), nullptr);
  EXPECT_EQ(parameters["stage3.block3.body.bn2.running_var"].shape(), (Shape{64}));
}

void LearnByHeart(Sequential& net, const NDArray& x, const std::vector<int32_t>& classes, int steps,
                  float rate) {
  const ParameterDict parameters = net.CollectParams();
  const NDArray y = NDArray::From(std::span<const int32_t>(classes), {static_cast<int64_t>(classes.size())});
  for (int step = 0; step < steps; ++step) {
    NDArray loss;
    {
      const autograd::RecordScope record({.seed = 1, .step = static_cast<uint64_t>(step)});
      loss = SoftmaxCrossEntropyLoss(Reduction::kMean)(net(x), y);
    }
    autograd::Backward({loss});
    for (const auto& parameter : parameters) {
      if (parameter->differentiable()) parameter->data(cpu(0)) -= parameter->grad(cpu(0)) * rate;
    }
  }
  metric::Accuracy accuracy;
  accuracy.Update(y, net(x));
  EXPECT_EQ(accuracy.value(), 1);
}

// With the running statistics, in evaluation.
TEST(LearningTest, Resnet20LearnsItsBatchByHeart) {
  Sequential net = Resnet20(4);
  net.CollectParams().Initialize({cpu(0)},
                                 std::make_shared<Xavier>(RandomType::kGaussian, FactorType::kIn, 2), 1);
  Rng rng(4);
  std::vector<float> pixels(8 * 3 * 16 * 16);
  for (float& pixel : pixels) pixel = static_cast<float>(rng.Uniform(-1, 1));
  LearnByHeart(net, NDArray::From(std::span<const float>(pixels), {8, 3, 16, 16}), {0, 1, 2, 3, 0, 1, 2, 3},
               60, 0.05f);
}

TEST(LearningTest, TextClassifiersLearnWhichWordDecides) {
  Rng rng(6);
  std::vector<int32_t> ids, classes;
  for (int32_t n = 0; n < 24; ++n) {
    classes.push_back(n % 3);
    for (int i = 0; i < 7; ++i) ids.push_back(3 + static_cast<int32_t>(rng.Below(40)));
    ids[ids.size() - 1 - rng.Below(7)] = classes.back();
  }
  const NDArray x = NDArray::From(std::span<const int32_t>(ids), {24, 7});
  Sequential nets[] = {TextMean(43, 3, 16), TextCnn(43, 3, 16, 8)};
  for (Sequential& net : nets) {
    net.CollectParams().Initialize({cpu(0)}, nullptr, 2);
    LearnByHeart(net, x, classes, 400, 1.0f);
  }
}

}  // namespace
}  // namespace sluice::nn
