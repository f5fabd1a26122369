// Networks with bfloat16 weights: what float32 computes from the rounded weights, gradients rounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/ops.h"
#include "tensor/devices.h"
#include "unit/expect_error.h"
#include "unit/nn/check_layer.h"

namespace sluice::nn {
namespace {

using ::testing::HasSubstr;

// What layers with such weights multiply in.
class CastTest : public ::testing::Test {
 protected:
  CastTest() { MultiplyBFloat16(false); }
  ~CastTest() override { Devices::SetDefault(nullptr); }
  static void MultiplyBFloat16(bool multiplies) {
    Devices::SetDefault(std::make_shared<Devices>(DevicesOptions{.multiplies_bfloat16 = multiplies}));
  }
};

struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> grads;
};

Outcome Step(Sequential& net, const NDArray& x, const NDArray& labels) {
  NDArray losses;
  {
    const autograd::RecordScope record;
    losses = nn::SoftmaxCrossEntropyLoss()(net(x), labels);
  }
  autograd::Backward({losses});
  Outcome outcome{losses.ToVector(), {}};
  for (const auto& parameter : net.CollectParams()) {
    if (parameter->grad_req() == autograd::GradReq::kNull) continue;
    const NDArray grad = parameter->grad(cpu(0));
    EXPECT_EQ(grad.dtype(), parameter->dtype()) << parameter->name();
    const NDArray rounded = parameter->castable() ? grad.AsType(DType::kBFloat16) : grad;
    outcome.grads.push_back(rounded.AsType(DType::kFloat32).ToVector());
  }
  return outcome;
}

TEST_F(CastTest, WeightsAreRoundedAndGradientsToo) {
  Rng rng(2);
  for (const char* name : {"mlp", "lenet", "resnet20", "text_mean", "text_lstm", "text_gru"}) {
    SCOPED_TRACE(name);
    const bool text = std::string_view(name).starts_with("text");
    Sequential wide = CreateModel(name), narrow = CreateModel(name);
    const NDArray x =
        text ? NDArray::From({1, 5, 7, 3, 3, 2}, {2, 3})
             : reference::ToNDArray(
                   Random(std::string(name) == "resnet20" ? Shape{2, 3, 32, 32} : Shape{2, 1, 28, 28}, &rng));
    const NDArray labels = NDArray::From({0, 1}, {2});
    narrow.CollectParams().Cast(DType::kBFloat16);
    for (Sequential* net : {&wide, &narrow}) {
      net->CollectParams().Initialize({cpu(0)}, nullptr, 5);
      (*net)(x);
    }
    for (const auto& parameter : wide.CollectParams()) {
      const auto other = narrow.CollectParams().Find(parameter->name());
      EXPECT_EQ(other->dtype(), parameter->castable() ? DType::kBFloat16 : DType::kFloat32);
      parameter->SetData(parameter->data(cpu(0)).AsType(other->dtype()).AsType(DType::kFloat32));
      EXPECT_EQ(other->data(cpu(0)).AsType(DType::kFloat32).ToVector(), parameter->data(cpu(0)).ToVector());
    }
    const Outcome expected = Step(wide, x, labels), got = Step(narrow, x, labels);
    EXPECT_EQ(got.losses, expected.losses);
    EXPECT_EQ(got.grads, expected.grads);
  }
}

// As docs/layers.md has it.
class Projection final : public ParameterLayer {
 public:
  Projection(int64_t in, int64_t out) { AddParameter("weight", Shape{out, in}); }
  NDArray Forward(const NDArray& x) override {
    return ops::Dense(x, parameter(0).data(x.context()).AsType(DType::kFloat32));
  }
  std::string_view kind() const override { return "Projection"; }
};

TEST_F(CastTest, ALayerOfOnesOwnAsksForFloat32) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Sequential net;
    net.Add("own", Projection(2, 1));
    net.CollectParams().Cast(dtype);
    net.CollectParams().Initialize({cpu(0)}, std::make_shared<Constant>(0.5));
    NDArray y;
    {
      const autograd::RecordScope record;
      y = net(NDArray::From({3, 4}, {1, 2}));
    }
    autograd::Backward({y});
    EXPECT_EQ(y.ToVector(), std::vector<float>{3.5});
    const NDArray grad = net.CollectParams().Find("own.weight")->grad(cpu(0));
    EXPECT_EQ(grad.dtype(), dtype);
    EXPECT_EQ(grad.AsType(DType::kFloat32).ToVector(), (std::vector<float>{3, 4}));
  }
}

TEST_F(CastTest, LayersMultiplyInBFloat16WhereThatIsWanted) {
  const float finer = 1 + 0x1p-10f;  // a bfloat16 rounds it to 1
  const auto outcome = [&](Layer& layer, const Shape& shape) {
    layer.CollectParams().Cast(DType::kBFloat16);
    NDArray x(shape);
    x.Fill(finer);
    layer.CollectParams().Initialize({cpu(0)}, std::make_shared<Zero>());
    layer(x);  // now the shape is known
    for (const auto& parameter : layer.CollectParams()) parameter->data(cpu(0)).Fill(1);
    return layer(x).ToVector();
  };
  const auto outcomes = [&] {
    Dense dense(1, {.use_bias = false});
    Conv2D conv(1, {1, 1}, {.use_bias = false});
    Conv2DTranspose transpose(1, {1, 1}, {.use_bias = false});
    return std::vector{outcome(dense, {1, 4}), outcome(conv, {1, 4, 1, 1}), outcome(transpose, {1, 4, 1, 1})};
  };
  EXPECT_THAT(outcomes(), ::testing::Each(std::vector{4 * finer}));
  MultiplyBFloat16(true);
  try {
    EXPECT_THAT(outcomes(), ::testing::Each(std::vector{4.0f}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    GTEST_SKIP() << error.what();
  }
}

TEST_F(CastTest, SharedAndAddedGradientsSumInFloat32) {
  Dense first(2, {.use_bias = false, .in_units = 2}), second(2, {.use_bias = false, .in_units = 2});
  first.AddPrefix("first");
  second.ShareParameters(first);
  const ParameterDict parameters = first.CollectParams();
  parameters.Cast(DType::kBFloat16);
  parameters.Initialize({cpu(0)});
  parameters.SetGradReq(autograd::GradReq::kAdd);
  const NDArray x = NDArray::From({1, 2}, {1, 2});
  for (int pass = 0; pass < 2; ++pass) {
    NDArray sum;
    {
      const autograd::RecordScope record;
      sum = first(x) + second(x);
    }
    autograd::Backward({sum});
  }
  const NDArray grad = parameters.at(0)->grad(cpu(0));
  EXPECT_EQ(grad.dtype(), DType::kBFloat16);
  EXPECT_THAT(grad.AsType(DType::kFloat32).ToVector(), ::testing::ElementsAre(4, 8, 4, 8));
}

TEST_F(CastTest, AfterInitializeValuesAreRounded) {
  Parameter parameter("w", {3});
  parameter.Initialize({cpu(0)}, std::make_shared<Zero>());
  parameter.SetData(NDArray::From({1.0f, 1.00390625f, 3.14159265f}, {3}));
  parameter.Cast(DType::kBFloat16);
  EXPECT_THAT(parameter.data(cpu(0)).AsType(DType::kFloat32).ToVector(),
              ::testing::ElementsAre(1.0f, 1.0f, 3.140625f));  // the middle one is a tie: to even
  EXPECT_EQ(parameter.grad(cpu(0)).dtype(), DType::kBFloat16);
}

TEST_F(CastTest, WholeTypesAreRefused) {
  Parameter parameter("w", {3});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { parameter.Cast(DType::kInt32); }),
              HasSubstr("parameter 'w' cannot be cast to int32"));
}

}  // namespace
}  // namespace sluice::nn
