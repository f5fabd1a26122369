// Convolutions of random shapes beside direct sums in float64: windows as wide as the image, and as many
// channels as oneDNN's blocked kernels want. conv_test.cc has few channels and gradients by differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sluice/autograd.h"
#include "sluice/nn.h"
#include "unit/nn/reference.h"

namespace sluice::nn {
namespace {

using reference::Geometry;
using reference::Random;
using reference::Tensor;

struct Case {
  Shape x, weight;  // [n, in, h, w], [out, in / groups, kh, kw]
  Geometry g;
  Shape Result() const {
    const auto extent = [](int64_t in, int64_t padding, int64_t full, int64_t stride) {
      return (in + 2 * padding - full) / stride + 1;
    };
    return {x[0], weight[0], extent(x[2], g.padding.height, g.full_height(), g.stride.height),
            extent(x[3], g.padding.width, g.full_width(), g.stride.width)};
  }
};

// term(i, j, k): element k of the result has the product of x's element i and the weight's element j.
template <typename Term>
void ForEachTerm(const Case& c, Term&& term) {
  const Shape &x = c.x, &w = c.weight, y = c.Result();
  const auto place = [](const Shape& s, int64_t n, int64_t channel, int64_t row, int64_t column) {
    return ((n * s[1] + channel) * s[2] + row) * s[3] + column;
  };
  for (int64_t k = 0; k < y.size(); ++k) {
    const int64_t n = k / (y[1] * y[2] * y[3]), out = k / (y[2] * y[3]) % y[1];
    const int64_t top = k / y[3] % y[2] * c.g.stride.height - c.g.padding.height;
    const int64_t left = k % y[3] * c.g.stride.width - c.g.padding.width;
    const int64_t first = out / (y[1] / c.g.groups) * w[1];  // channel of its group
    for (int64_t tap = 0; tap < w[1] * w[2] * w[3]; ++tap) {
      const int64_t row = top + tap / w[3] % w[2] * c.g.dilation.height;
      const int64_t column = left + tap % w[3] * c.g.dilation.width;
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      term(place(x, n, first + tap / (w[2] * w[3]), row, column), out * w[1] * w[2] * w[3] + tap, k);
    }
  }
}

// Within 1e-5 of the largest.
void ExpectAll(const NDArray& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape);
  const std::vector<float> values = actual.ToVector();
  double largest = 0, worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::fabs(expected.values[i]));
    const double error = std::fabs(values[i] - expected.values[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(worst, 1e-5 * largest);
}

class ConvProperty : public ::testing::TestWithParam<uint64_t> {
 protected:
  int64_t UpTo(uint64_t n) { return 1 + Below(n); }
  int64_t Below(uint64_t n) { return static_cast<int64_t>(rng_.Below(n)); }
  bool Coin() { return rng_.Below(2) == 1; }

  // With groups too, which such a window does not have everywhere.
  Case AsWideAsTheImage() {
    const int64_t groups = Coin() ? 1 : UpTo(3), width = Coin() ? UpTo(4) : UpTo(40);
    const Geometry g{{UpTo(5), width}, {UpTo(3), UpTo(3)}, {Below(4), 0}, {UpTo(3), 1}, groups};
    const int64_t in = Coin() ? 1 : UpTo(24), out = Coin() ? UpTo(8) : UpTo(40);
    return {{UpTo(4), groups * in, g.full_height() + Below(12), width},
            {groups * out, in, g.window.height, width},
            g};
  }
  // Some of them reach from one side to the other with dilation or padding.
  Case ManyChannels() {
    const int64_t groups = Coin() ? 1 : 2, in = 15 + UpTo(49), out = 15 + UpTo(49);
    const Geometry g{
        {UpTo(4), UpTo(4)}, {UpTo(2), UpTo(2)}, {Below(3), Below(3)}, {UpTo(2), UpTo(2)}, groups};
    return {{UpTo(3), groups * in, g.full_height() + Below(6), g.full_width() + Below(6)},
            {groups * out, in, g.window.height, g.window.width},
            g};
  }
  // Sums stay near 1, where tanh does not enlarge their rounding.
  Tensor RandomWeight(const Shape& shape) {
    Tensor weight = Random(shape, &rng_);
    const double scale = std::sqrt(static_cast<double>(shape[0]) / static_cast<double>(shape.size()));
    for (double& value : weight.values) value = static_cast<float>(value * scale);
    return weight;
  }
  void CheckConvolution(const Case& c);
  void CheckTransposed(const Case& c);
  void Run(Sequential* net, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& head);
  void ExpectResults(const Tensor& y, const Tensor& grad_x, const Tensor& grad_weight,
                     const Tensor& grad_bias) const {
    ExpectAll(y_, y);
    ExpectAll(autograd::Grad(x_), grad_x);
    ExpectAll(grad_weight_, grad_weight);
    ExpectAll(grad_bias_, grad_bias);
  }

  Rng rng_{GetParam()};
  NDArray x_, y_, grad_weight_, grad_bias_;
};

void ConvProperty::Run(Sequential* net, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& head) {
  const ParameterDict parameters = net->CollectParams();
  parameters.Initialize();
  parameters["conv.weight"].SetData(reference::ToNDArray(weight));
  parameters["conv.bias"].SetData(reference::ToNDArray(bias));
  x_ = reference::ToNDArray(x);
  autograd::AttachGrad(x_);
  {
    const autograd::RecordScope record;
    y_ = (*net)(x_);
  }
  autograd::Backward({y_}, {reference::ToNDArray(head)});
  grad_weight_ = parameters["conv.weight"].grad(cpu(0));
  grad_bias_ = parameters["conv.bias"].grad(cpu(0));
}

// With tanh in the same pass for every other seed.
void ConvProperty::CheckConvolution(const Case& c) {
  const bool tanh = GetParam() % 2 == 1;
  const Shape shape = c.Result();
  const int64_t plane = shape[2] * shape[3];
  SCOPED_TRACE(::testing::Message() << c.x << " with " << c.weight << " to " << shape);
  const Tensor x = Random(c.x, &rng_), weight = RandomWeight(c.weight), bias = Random({shape[1]}, &rng_);
  const Tensor head = Random(shape, &rng_);
  Sequential net;
  net.Add("conv", Conv2D(shape[1], c.g.window,
                         {.stride = c.g.stride,
                          .padding = c.g.padding,
                          .in_channels = c.x[1],
                          .dilation = c.g.dilation,
                          .groups = c.g.groups}));
  if (tanh) net.Add("tanh", Activation::Tanh());
  Run(&net, x, weight, bias, head);

  Tensor y(shape), grad = head, grad_x(c.x), grad_weight(c.weight), grad_bias(bias.shape);
  for (int64_t k = 0; k < shape.size(); ++k) y.at(k) = bias.at(k / plane % shape[1]);
  ForEachTerm(c, [&](int64_t i, int64_t j, int64_t k) { y.at(k) += x.at(i) * weight.at(j); });
  for (int64_t k = 0; k < shape.size(); ++k) {
    if (tanh) y.at(k) = std::tanh(y.at(k));
    if (tanh) grad.at(k) *= 1 - y.at(k) * y.at(k);
    grad_bias.at(k / plane % shape[1]) += grad.at(k);
  }
  ForEachTerm(c, [&](int64_t i, int64_t j, int64_t k) {
    grad_x.at(i) += grad.at(k) * weight.at(j);
    grad_weight.at(j) += grad.at(k) * x.at(i);
  });
  ExpectResults(y, grad_x, grad_weight, grad_bias);
}

// From the convolution's result to its image.
void ConvProperty::CheckTransposed(const Case& c) {
  const Shape from = c.Result();
  const int64_t plane = c.x[2] * c.x[3];
  SCOPED_TRACE(::testing::Message() << from << " with " << c.weight << " back to " << c.x);
  const Tensor x = Random(from, &rng_), weight = RandomWeight(c.weight), bias = Random({c.x[1]}, &rng_);
  const Tensor head = Random(c.x, &rng_);
  const Window more = {(c.x[2] + 2 * c.g.padding.height - c.g.full_height()) % c.g.stride.height,
                       (c.x[3] + 2 * c.g.padding.width - c.g.full_width()) % c.g.stride.width};
  Sequential net;
  net.Add("conv", Conv2DTranspose(c.x[1], c.g.window,
                                  {.stride = c.g.stride,
                                   .padding = c.g.padding,
                                   .output_padding = more,
                                   .in_channels = from[1],
                                   .dilation = c.g.dilation,
                                   .groups = c.g.groups}));
  Run(&net, x, weight, bias, head);

  Tensor y(c.x), grad_x(from), grad_weight(c.weight), grad_bias(bias.shape);
  for (int64_t i = 0; i < y.shape.size(); ++i) {
    y.at(i) = bias.at(i / plane % c.x[1]);
    grad_bias.at(i / plane % c.x[1]) += head.at(i);
  }
  ForEachTerm(c, [&](int64_t i, int64_t j, int64_t k) {
    y.at(i) += x.at(k) * weight.at(j);
    grad_x.at(k) += head.at(i) * weight.at(j);
    grad_weight.at(j) += head.at(i) * x.at(k);
  });
  ExpectResults(y, grad_x, grad_weight, grad_bias);
}

TEST_P(ConvProperty, OfWindowsAsWideAsTheImage) {
  CheckConvolution(AsWideAsTheImage());
}
TEST_P(ConvProperty, OfManyChannels) {
  CheckConvolution(ManyChannels());
}
TEST_P(ConvProperty, TransposedToImagesAsWideAsTheWindow) {
  CheckTransposed(AsWideAsTheImage());
}
TEST_P(ConvProperty, TransposedOfManyChannels) {
  CheckTransposed(ManyChannels());
}

INSTANTIATE_TEST_SUITE_P(Seeds, ConvProperty, ::testing::Range<uint64_t>(0, 40));

}  // namespace
}  // namespace sluice::nn
