// Tests BatchNorm and LayerNorm against formulas in float64, and the running statistics against the formula.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"
#include "unit/nn/message_of.h"

namespace sluice::nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kEpsilon = 1e-5;

struct ChannelMoments {
  double mean = 0, variance = 0;  // the biased one
};

int64_t SizeOfPlane(const Shape& shape) {
  int64_t size = 1;
  for (size_t axis = 2; axis < shape.ndim(); ++axis) size *= shape[axis];
  return size;
}

// Visits the elements of a channel.
void ForChannel(const Shape& shape, int64_t channel, const std::function<void(int64_t)>& visit) {
  const int64_t size = SizeOfPlane(shape);
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t i = 0; i < size; ++i) visit((n * shape[1] + channel) * size + i);
  }
}

ChannelMoments MomentsOfChannel(const Tensor& x, int64_t channel) {
  ChannelMoments m;
  int64_t count = 0;
  ForChannel(x.shape, channel, [&](int64_t i) { m.mean += x.at(i), ++count; });
  m.mean /= static_cast<double>(count);
  ForChannel(x.shape, channel, [&](int64_t i) { m.variance += std::pow(x.at(i) - m.mean, 2); });
  m.variance /= static_cast<double>(count);
  return m;
}

// Null factors are 1 and 0.
Tensor BatchNormOf(const Tensor& x, const Tensor* gamma, const Tensor* beta) {
  Tensor y(x.shape);
  for (int64_t c = 0; c < x.shape[1]; ++c) {
    const ChannelMoments m = MomentsOfChannel(x, c);
    ForChannel(x.shape, c, [&](int64_t i) {
      y.at(i) = (x.at(i) - m.mean) / std::sqrt(m.variance + kEpsilon) * (gamma ? gamma->at(c) : 1) +
                (beta ? beta->at(c) : 0);
    });
  }
  return y;
}

TEST(BatchNormTest, TrainingMatchesTheReference) {
  // The last ones: more channels than one block, planes longer than one row of lanes.
  const Shape shapes[] = {{4, 3, 5, 2}, {7, 5},  {1, 2, 3, 3},  {2, 3, 4},
                          {6, 1},       {3, 70}, {2, 67, 2, 1}, {2, 2, 5, 7}};
  uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    BatchNorm both;
    Check(
        both, shape, [](const auto& v) { return BatchNormOf(v[0], &v[1], &v[2]); }, ++seed);
    BatchNorm center({.scale = false});
    Check(
        center, shape, [](const auto& v) { return BatchNormOf(v[0], nullptr, &v[1]); }, ++seed);
    BatchNorm scale({.center = false});
    Check(
        scale, shape, [](const auto& v) { return BatchNormOf(v[0], &v[1], nullptr); }, ++seed);
    BatchNorm neither({.center = false, .scale = false});
    Check(
        neither, shape, [](const auto& v) { return BatchNormOf(v[0], nullptr, nullptr); }, ++seed);
  }
}

// Where the sum of squares minus the square of the sum would have lost everything.
TEST(BatchNormTest, SurvivesAMeanFarFromZero) {
  Rng rng(3);
  Tensor x = Random({50, 2, 9, 9}, &rng);
  for (double& value : x.values) value = static_cast<float>(1000 + value / 4);
  BatchNorm norm;
  norm.CollectParams().Initialize();
  const autograd::RecordScope record;
  reference::ExpectClose(norm(reference::ToNDArray(x)), BatchNormOf(x, nullptr, nullptr), 2e-4);
}

class RunningTest : public ::testing::Test {
 protected:
  explicit RunningTest(BatchNorm::Options options = {.momentum = 0.75, .in_channels = 3}) : norm_(options) {
    norm_.CollectParams().Initialize({cpu(0), cpu(1)});
  }
  NDArray Train(const Tensor& x, Context context = cpu(0)) {
    const autograd::RecordScope record;
    return norm_(reference::ToNDArray(x, context));
  }
  Tensor Statistic(const char* name, Context context = cpu(0)) {
    const std::vector<float> values = norm_.CollectParams()[name].data(context).ToVector();
    Tensor tensor({3});
    tensor.values.assign(values.begin(), values.end());
    return tensor;
  }
  void Expect(const Tensor& mean, const Tensor& variance, Context context = cpu(0)) {
    reference::ExpectClose(norm_.CollectParams()["running_mean"].data(context), mean);
    reference::ExpectClose(norm_.CollectParams()["running_var"].data(context), variance);
  }
  // What a batch makes of them.
  static void Mix(const Tensor& x, double momentum, Tensor* mean, Tensor* variance) {
    const auto count = static_cast<double>(x.shape.size() / x.shape[1]);
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      const ChannelMoments m = MomentsOfChannel(x, c);
      mean->at(c) = momentum * mean->at(c) + (1 - momentum) * m.mean;
      variance->at(c) = momentum * variance->at(c) + (1 - momentum) * m.variance * count / (count - 1);
    }
  }
  Rng rng_{11};
  BatchNorm norm_;
};

TEST_F(RunningTest, StatisticsFollowTheBatchesOfTheirContext) {
  Tensor mean({3}), variance({3}), other_mean({3}), other_variance({3});
  variance.values = other_variance.values = {1, 1, 1};
  for (int step = 0; step < 4; ++step) {
    const Tensor x = Random({5, 3, 2, 4}, &rng_), y = Random({2, 3}, &rng_);
    Train(x);
    Train(y, cpu(1));
    Mix(x, 0.75, &mean, &variance);
    Mix(y, 0.75, &other_mean, &other_variance);
    Expect(mean, variance);
    Expect(other_mean, other_variance, cpu(1));
  }
}

TEST_F(RunningTest, EvaluationNormalisesWithThemAndLeavesThem) {
  const Tensor x = Random({5, 3, 2, 2}, &rng_);
  Train(Random({9, 3, 2, 4}, &rng_));
  const Tensor mean = Statistic("running_mean"), variance = Statistic("running_var");
  const auto function = [&](const std::vector<Tensor>& v) {
    Tensor y(v[0].shape);
    for (int64_t c = 0; c < 3; ++c) {
      ForChannel(y.shape, c, [&](int64_t i) {
        y.at(i) = (v[0].at(i) - mean.at(c)) / std::sqrt(variance.at(c) + kEpsilon) * v[1].at(c) + v[2].at(c);
      });
    }
    return y;
  };
  const std::vector<Tensor> inputs = {x, Random({3}, &rng_), Random({3}, &rng_)};
  const ParameterDict parameters = norm_.CollectParams();
  parameters["gamma"].SetData(reference::ToNDArray(inputs[1]));
  parameters["beta"].SetData(reference::ToNDArray(inputs[2]));
  NDArray input = reference::ToNDArray(x), y;
  reference::ExpectClose(norm_(input), function(inputs));  // not recorded
  autograd::AttachGrad(input);
  {
    const autograd::RecordScope record(/*training=*/false);
    y = norm_(input);
  }
  reference::ExpectClose(y, function(inputs));
  const Tensor head = Random(x.shape, &rng_);
  autograd::Backward({y}, {reference::ToNDArray(head)});
  reference::ExpectClose(autograd::Grad(input), reference::Gradient(function, inputs, 0, head));
  reference::ExpectClose(parameters["gamma"].grad(cpu(0)), reference::Gradient(function, inputs, 1, head));
  reference::ExpectClose(parameters["beta"].grad(cpu(0)), reference::Gradient(function, inputs, 2, head));
  Expect(mean, variance);
}

TEST_F(RunningTest, OneValueLeavesTheVarianceAlone) {
  EXPECT_THAT(Train(Random({1, 3}, &rng_)).ToVector(), Each(0));  // x - mean
  EXPECT_EQ(Statistic("running_var").values, (std::vector<double>{1, 1, 1}));
}

TEST_F(RunningTest, NoRowsChangeNothing) {
  NDArray x({0, 3, 4, 4}), y;
  autograd::AttachGrad(x);
  {
    const autograd::RecordScope record;
    y = norm_(x);
  }
  EXPECT_EQ(y.shape(), x.shape());
  autograd::Backward({y});
  EXPECT_THAT(norm_.CollectParams()["gamma"].grad(cpu(0)).ToVector(), ElementsAre(0, 0, 0));
  EXPECT_THAT(norm_.CollectParams()["beta"].grad(cpu(0)).ToVector(), ElementsAre(0, 0, 0));
  EXPECT_EQ(Statistic("running_mean").values, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(Statistic("running_var").values, (std::vector<double>{1, 1, 1}));
}

TEST(BatchNormTest, GlobalStatisticsNormaliseInTrainingToo) {
  BatchNorm norm({.use_global_stats = true, .in_channels = 2});
  norm.CollectParams().Initialize();
  norm.CollectParams()["running_mean"].SetData(NDArray::From({1, 2}, {2}));
  norm.CollectParams()["running_var"].SetData(NDArray::From({4, 0.25}, {2}));
  const autograd::RecordScope record;
  const std::vector<float> y = norm(NDArray::From({3, 3, -1, 1}, {2, 2})).ToVector();
  const float expected[] = {1, 2, -1, -2};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-4);
  EXPECT_THAT(norm.CollectParams()["running_mean"].data(cpu(0)).ToVector(), ElementsAre(1, 2));
}

TEST(BatchNormTest, ParametersAreThoseThatAreSavedAndStepped) {
  Sequential net;
  net.Add("bn", BatchNorm());
  const ParameterDict parameters = net.CollectParams();
  EXPECT_THAT(parameters.names(), ElementsAre("bn.gamma", "bn.beta", "bn.running_mean", "bn.running_var"));
  parameters.Initialize();
  net(NDArray({2, 3, 1, 1}));  // deferred until now
  for (const char* name : {"bn.gamma", "bn.beta"}) {
    EXPECT_EQ(parameters[name].wd_mult(), 0);
    EXPECT_EQ(parameters[name].grad_req(), autograd::GradReq::kWrite);
  }
  EXPECT_THAT(parameters["bn.gamma"].data(cpu(0)).ToVector(), ElementsAre(1, 1, 1));
  EXPECT_THAT(parameters["bn.running_var"].data(cpu(0)).ToVector(), ElementsAre(1, 1, 1));
  parameters.SetGradReq(autograd::GradReq::kAdd);
  EXPECT_EQ(parameters["bn.gamma"].grad_req(), autograd::GradReq::kAdd);
  EXPECT_EQ(parameters["bn.running_mean"].grad_req(), autograd::GradReq::kNull);
  EXPECT_THAT(MessageOf([&] { parameters["bn.running_var"].SetGradReq(autograd::GradReq::kAdd); }),
              HasSubstr("'bn.running_var' is not differentiable"));
}

TEST(BatchNormTest, Refusals) {
  Sequential net;
  net.Add("bn", BatchNorm({.in_channels = 3}));
  net.CollectParams().Initialize();
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 4, 5, 5}));
              }),
              HasSubstr("bn (BatchNorm) expects input of shape [batch, 3, ...] and got [2, 4, 5, 5]"));
  EXPECT_THAT(MessageOf([&] { BatchNorm()(NDArray({4})); }), HasSubstr("[batch, channels, ...] and got [4]"));
  EXPECT_THAT(MessageOf([] { BatchNorm({.momentum = 1.5}); }), HasSubstr("momentum is 1.5"));
  EXPECT_THAT(MessageOf([] { BatchNorm({.momentum = NAN}); }), HasSubstr("momentum is nan"));
  EXPECT_THAT(MessageOf([] { BatchNorm({.epsilon = 0}); }), HasSubstr("epsilon is 0"));
}

// Null factors are 1 and 0.
Tensor LayerNormOf(const Tensor& x, const Tensor* gamma, const Tensor* beta) {
  Tensor y(x.shape);
  const int64_t columns = x.shape[x.shape.ndim() - 1];
  for (int64_t row = 0; row < x.shape.size() / columns; ++row) {
    ChannelMoments m;
    for (int64_t i = 0; i < columns; ++i) m.mean += x.at(row * columns + i) / static_cast<double>(columns);
    for (int64_t i = 0; i < columns; ++i)
      m.variance += std::pow(x.at(row * columns + i) - m.mean, 2) / static_cast<double>(columns);
    for (int64_t i = 0; i < columns; ++i) {
      y.at(row * columns + i) =
          (x.at(row * columns + i) - m.mean) / std::sqrt(m.variance + kEpsilon) * (gamma ? gamma->at(i) : 1) +
          (beta ? beta->at(i) : 0);
    }
  }
  return y;
}

TEST(LayerNormTest, MatchesTheReference) {
  uint64_t seed = 40;
  for (const Shape& shape : {Shape{4, 5}, Shape{2, 3, 7}, Shape{3, 2, 2, 37}, Shape{2, 70}, Shape{0, 4}}) {
    LayerNorm both;
    Check(
        both, shape, [](const auto& v) { return LayerNormOf(v[0], &v[1], &v[2]); }, ++seed);
    LayerNorm center({.scale = false});
    Check(
        center, shape, [](const auto& v) { return LayerNormOf(v[0], nullptr, &v[1]); }, ++seed);
    LayerNorm scale({.center = false});
    Check(
        scale, shape, [](const auto& v) { return LayerNormOf(v[0], &v[1], nullptr); }, ++seed);
    LayerNorm neither({.center = false, .scale = false});
    Check(
        neither, shape, [](const auto& v) { return LayerNormOf(v[0], nullptr, nullptr); }, ++seed);
  }
}

TEST(LayerNormTest, Refusals) {
  Sequential net;
  net.Add("ln", LayerNorm({.in_channels = 3}));
  net.CollectParams().Initialize();
  EXPECT_EQ(net.CollectParams()["ln.gamma"].wd_mult(), 0);
  EXPECT_THAT(MessageOf([&] {
                net(NDArray({2, 4}));
              }),
              HasSubstr("ln (LayerNorm) expects input of shape [batch, ..., 3] and got [2, 4]"));
  EXPECT_THAT(MessageOf([] { LayerNorm({.epsilon = -1}); }), HasSubstr("epsilon is -1"));
  EXPECT_THAT(MessageOf([] { LayerNorm({.epsilon = NAN}); }), HasSubstr("epsilon is nan"));
  EXPECT_THAT(MessageOf([] { ops::LayerNorm(NDArray(Shape{}), {}, {}); }), HasSubstr("LayerNorm: a scalar"));
  EXPECT_THAT(LayerNorm({.center = false, .scale = false})(NDArray::From({5, 7}, {2, 1})).ToVector(),
              Each(0));
}

}  // namespace
}  // namespace sluice::nn
