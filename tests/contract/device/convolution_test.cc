// The device contract of convolutions over images whose channels lie last: results and gradients are the sums
// that a plain loop over all products finds, for windows, strides, paddings, dilations and groups of many
// kinds, in every arithmetic, with every choice of gradients. With bfloat16 a factor is off by up to 2^-9.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "contract/device/activation_formulas.h"
#include "contract/device/device_test.h"
#include "contract/device/within.h"

namespace sluice::testing {
namespace {

struct Case {
  const char* name;
  ConvShape shape;
};

const Case kCases[] = {
    {"one pixel", {1, 1, 1, 1, 1, {}}},
    {"1x1", {2, 5, 6, 7, 9, {}}},
    {"1x1 with strides", {3, 8, 7, 9, 16, {1, 1, 2, 3}}},
    {"1x1 with padding", {1, 3, 4, 5, 2, {1, 1, 1, 1, 1, 2}}},
    {"3x3, one channel", {2, 1, 9, 8, 6, {3, 3, 1, 1, 1, 1}}},
    {"3x3, 16 channels", {2, 16, 11, 13, 32, {3, 3, 1, 1, 1, 1}}},
    {"work for several threads", {4, 32, 20, 20, 32, {3, 3, 1, 1, 1, 1}}},
    {"7x7 with stride 2", {1, 3, 32, 32, 24, {7, 7, 2, 2, 3, 3}}},
    {"all sides unlike", {2, 3, 9, 14, 5, {3, 5, 2, 1, 0, 2}}},
    {"all sides unlike, the other way", {2, 3, 14, 9, 5, {5, 3, 1, 2, 2, 0}}},
    {"dilation", {2, 4, 12, 15, 6, {3, 3, 1, 1, 2, 3, 2, 3}}},
    {"dilation, strides and groups", {2, 6, 13, 17, 4, {2, 3, 2, 3, 1, 2, 3, 2}, 2}},
    {"two groups", {2, 4, 7, 8, 6, {3, 3, 1, 1, 1, 1}, 2}},
    {"groups of 16", {1, 32, 6, 7, 32, {3, 3, 1, 1, 1, 1}, 2}},
    {"1x1 in groups", {2, 6, 5, 4, 9, {}, 3}},
    {"depthwise", {2, 8, 9, 10, 8, {3, 3, 1, 1, 1, 1}, 8}},
    {"depthwise, 33 channels with strides", {2, 33, 9, 10, 33, {3, 3, 2, 2, 1, 1}, 33}},
    {"depthwise with two outputs each", {1, 4, 8, 6, 8, {3, 5, 1, 1, 1, 2}, 4}},
    {"the window is larger than the image", {2, 3, 2, 3, 4, {5, 5, 1, 1, 2, 1}}},
    {"the dilated window is larger than the image", {1, 2, 3, 3, 3, {3, 3, 1, 1, 3, 3, 3, 4}}},
    {"images without rows, in padding", {2, 3, 0, 4, 5, {2, 3, 1, 1, 1, 1}}},
    {"some windows lie in the padding alone", {1, 2, 3, 4, 3, {2, 2, 1, 1, 4, 3}}},
    {"the last rows and columns are left out", {2, 3, 8, 8, 4, {3, 3, 3, 4}}},
    {"strides beyond the window", {2, 3, 10, 11, 4, {2, 1, 3, 4}}},
    {"the window is the image", {3, 5, 4, 6, 7, {4, 6}}},
    {"the window is as wide as the image", {2, 3, 10, 6, 8, {3, 6}}},
    {"as wide, with stride, padding and dilation", {2, 3, 13, 6, 8, {3, 6, 2, 1, 2, 0, 2, 1}}},
    {"as wide, in groups", {2, 4, 9, 5, 6, {2, 5}, 2}},
    {"images one pixel wide", {2, 6, 12, 1, 9, {3, 1, 1, 1, 1, 0}, 3}},
    {"images one pixel high", {2, 5, 1, 12, 7, {1, 4, 1, 2, 0, 1}}},
};

// Calls visit(place in x, place in weight, place in out) for every product of the convolution.
template <typename Visit>
void ForProducts(const ConvShape& s, Visit&& visit) {
  const WindowShape& w = s.window;
  const int64_t ins = s.in_channels / s.groups, outs = s.out_channels / s.groups;
  size_t out = 0;
  for (int64_t image = 0; image < s.batch; ++image)
    for (int64_t out_y = 0; out_y < s.out_height(); ++out_y)
      for (int64_t out_x = 0; out_x < s.out_width(); ++out_x)
        for (int64_t channel = 0; channel < s.out_channels; ++channel, ++out)
          for (int64_t place = 0; place < w.height * w.width; ++place) {
            const int64_t y = out_y * w.stride_height - w.pad_height + place / w.width * w.dilation_height;
            const int64_t x = out_x * w.stride_width - w.pad_width + place % w.width * w.dilation_width;
            if (y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) continue;
            const int64_t pixel = (image * s.in_height + y) * s.in_width + x;
            for (int64_t in = 0; in < ins; ++in)
              visit(static_cast<size_t>(pixel * s.in_channels + channel / outs * ins + in),
                    static_cast<size_t>((channel * ins + in) * w.height * w.width + place), out);
          }
}

int64_t SizeOfX(const ConvShape& s) {
  return s.batch * s.in_height * s.in_width * s.in_channels;
}
int64_t SizeOfWeight(const ConvShape& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.window.height * s.window.width;
}
int64_t SizeOfOut(const ConvShape& s) {
  return s.batch * s.out_height() * s.out_width() * s.out_channels;
}

std::string NumbersOf(const ConvShape& s) {
  const WindowShape& w = s.window;
  std::string name = "shape";
  for (const int64_t number :
       {s.batch, s.in_channels, s.in_height, s.in_width, s.out_channels, w.height, w.width, w.stride_height,
        w.stride_width, w.pad_height, w.pad_width, w.dilation_height, w.dilation_width, s.groups,
        static_cast<int64_t>(s.arithmetic)})
    name += " " + std::to_string(number);
  return name;
}

// Sums, and how large their terms are: rounded terms give a sum that is near 0 their digits, not its own.
struct Sums {
  explicit Sums(int64_t n) : values(static_cast<size_t>(n)), squares(static_cast<size_t>(n)) {}
  void Add(size_t place, double term) {
    values[place] += term;
    squares[place] += term * term;
  }
  std::vector<double> Terms() const {
    std::vector<double> roots;
    for (const double square : squares) roots.push_back(std::sqrt(square));
    return roots;
  }
  std::vector<double> values, squares;  // squares: of the terms of each sum, added up
};

class DeviceConvolution : public DeviceTest {
 protected:
  // Calls run(shape, tolerance) for all cases and for random ones, in every arithmetic.
  template <typename Run>
  void ForShapes(Run&& run) {
    const auto traced = [&](const std::string& name, ConvShape shape) {
      for (const Arithmetic arithmetic : kArithmetics) {
        shape.arithmetic = arithmetic;
        SCOPED_TRACE(name + ": " + NumbersOf(shape));
        run(shape, ToleranceOf(arithmetic));
      }
    };
    for (const Case& c : kCases) traced(c.name, c.shape);
    for (int i = 0; i < 25; ++i) traced("random", RandomShape());
  }

  // Expects `out` to be the convolution's, with the bias, if any, and the activation behind it.
  void TryForward(const ConvShape& s, const std::vector<float>& x, bool has_bias,
                  const std::optional<ActivationShape>& after, double tolerance) {
    Clear();
    const std::vector<float> weight = Uniform(SizeOfWeight(s)), bias = Uniform(s.out_channels);
    const float *const px = Input(x), *const pw = Input(weight);
    const float* const pb = has_bias ? Input(bias) : nullptr;
    float* const out = Output<float>(SizeOfOut(s));
    Run([&](Kernels& k) {
      k.Convolution({.shape = s, .x = px, .weight = pw, .bias = pb, .after = after, .out = out});
    });
    Sums sums(SizeOfOut(s));
    for (size_t i = 0; i < sums.values.size() && has_bias; ++i) sums.Add(i, bias[i % bias.size()]);
    ForProducts(s, [&](size_t in, size_t w, size_t to) { sums.Add(to, double{x[in]} * weight[w]); });
    for (double& value : sums.values) value = after ? Activated(*after, value) : value;
    const auto is_finite = [](double value) { return std::isfinite(value); };
    if (std::all_of(sums.values.begin(), sums.values.end(), is_finite))
      return ExpectWithin(Read(out), sums.values, sums.Terms(), tolerance);
    ExpectNear(Read(out), sums.values, tolerance);
  }

 private:
  ConvShape RandomShape() {
    while (true) {
      const int64_t groups = Between(1, 4);
      const WindowShape window = {Between(1, 4), Between(1, 4), Between(1, 3), Between(1, 3),
                                  Between(0, 3), Between(0, 3), Between(1, 3), Between(1, 3)};
      const ConvShape s = {Between(1, 3),  groups * Between(1, 9), Between(1, 12),
                           Between(1, 12), groups * Between(1, 9), window,
                           groups};
      if (s.in_height + 2 * window.pad_height >= window.full_height() &&
          s.in_width + 2 * window.pad_width >= window.full_width())
        return s;
    }
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceConvolution);

TEST_P(DeviceConvolution, IsTheSumOfItsProductsAndTheBias) {
  ForShapes([&](const ConvShape& s, double tolerance) {
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(has_bias ? "with bias" : "without bias");
      TryForward(s, Uniform(SizeOfX(s)), has_bias, std::nullopt, tolerance);
    }
  });
}

TEST_P(DeviceConvolution, AppliesEveryActivationThatFollowsIt) {
  const ConvShape shapes[] = {{2, 16, 11, 13, 32, {3, 3, 1, 1, 1, 1}},
                              {2, 5, 6, 7, 9, {}},
                              {2, 3, 10, 6, 8, {3, 6}},
                              {2, 6, 13, 17, 4, {2, 3, 2, 3, 1, 2, 3, 2}, 2},
                              {2, 33, 9, 10, 33, {3, 3, 2, 2, 1, 1}, 33},
                              {0, 3, 9, 9, 4, {3, 3}}};
  for (const ActivationShape& a : kActivations)
    for (ConvShape s : shapes)
      for (const bool has_bias : {false, true})
        for (const Arithmetic arithmetic : kArithmetics) {
          if (!a.FromOutput()) continue;
          s.arithmetic = arithmetic;
          SCOPED_TRACE(NameOf(a) + " after " + NumbersOf(s) + (has_bias ? " with bias" : " without bias"));
          TryForward(s, Uniform(SizeOfX(s)), has_bias, a, ToleranceOf(arithmetic));
        }
}

// NaN in an image shows that a network is broken, so no activation may hide it.
TEST_P(DeviceConvolution, NaNStaysNaNBehindEveryActivation) {
  const ConvShape s = {2, 4, 9, 8, 6, {3, 3, 1, 1, 1, 1}};
  std::vector<float> x = Uniform(SizeOfX(s));
  x[static_cast<size_t>(4 * (8 * 3 + 5) + 2)] = std::numeric_limits<float>::quiet_NaN();
  TryForward(s, x, true, std::nullopt, kFloatTolerance);
  for (const ActivationShape& a : kActivations) {
    SCOPED_TRACE(NameOf(a));
    if (a.FromOutput()) TryForward(s, x, true, a, kFloatTolerance);
  }
}

class DeviceConvolutionBackward : public DeviceConvolution {
 protected:
  struct Gradients {
    Sums x, weight, bias;
  };
  static Gradients Expected(const ConvShape& s, const std::vector<float>& x, const std::vector<float>& weight,
                            const std::vector<float>& grad) {
    Gradients to = {Sums(SizeOfX(s)), Sums(SizeOfWeight(s)), Sums(s.out_channels)};
    ForProducts(s, [&](size_t in, size_t w, size_t out) {
      to.x.Add(in, double{weight[w]} * grad[out]);
      to.weight.Add(w, double{x[in]} * grad[out]);
    });
    for (size_t i = 0; i < grad.size(); ++i) to.bias.Add(i % to.bias.values.size(), grad[i]);
    return to;
  }

  // Tries the gradients that bits 0 to 2 of `wanted` name: those of x, weight and bias. The inputs that they
  // do not need are given too, or are null.
  void Try(const ConvShape& s, int wanted, bool gives_all, double tolerance) {
    SCOPED_TRACE("gradients " + std::to_string(wanted) + (gives_all ? ", all inputs given" : ""));
    Clear();
    const std::vector<float> x = Uniform(SizeOfX(s)), weight = Uniform(SizeOfWeight(s)),
                             grad = Uniform(SizeOfOut(s));
    const bool of_x = (wanted & 1) != 0, of_weight = (wanted & 2) != 0, of_bias = (wanted & 4) != 0;
    const float* const px = of_weight || gives_all ? Input(x) : nullptr;
    const float* const pw = of_x || gives_all ? Input(weight) : nullptr;
    const float* const pg = Input(grad);
    float* const grad_x = of_x ? Output<float>(SizeOfX(s)) : nullptr;
    float* const grad_weight = of_weight ? Output<float>(SizeOfWeight(s)) : nullptr;
    float* const grad_bias = of_bias ? Output<float>(s.out_channels) : nullptr;
    Run([&](Kernels& k) {
      k.ConvolutionBackward({.shape = s,
                             .x = px,
                             .weight = pw,
                             .grad = pg,
                             .grad_x = grad_x,
                             .grad_weight = grad_weight,
                             .grad_bias = grad_bias});
    });
    const Gradients expected = Expected(s, x, weight, grad);
    const auto expect = [&](const float* actual, const Sums& sums) {
      ExpectWithin(Read(actual), sums.values, sums.Terms(), tolerance);
    };
    if (of_x) expect(grad_x, expected.x);
    if (of_weight) expect(grad_weight, expected.weight);
    if (of_bias) expect(grad_bias, expected.bias);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceConvolutionBackward);

TEST_P(DeviceConvolutionBackward, GradientsAreTheSumsOfTheirProducts) {
  ForShapes([&](const ConvShape& s, double tolerance) { Try(s, /*wanted=*/7, true, tolerance); });
}

TEST_P(DeviceConvolutionBackward, ComputesAnyChoiceOfGradientsFromTheInputsThatTheseNeed) {
  const ConvShape shapes[] = {{2, 16, 11, 13, 32, {3, 3, 1, 1, 1, 1}},
                              {2, 5, 6, 7, 9, {}},
                              {2, 3, 10, 6, 8, {3, 6}},
                              {2, 3, 2, 3, 4, {5, 5, 1, 1, 2, 1}},
                              {2, 4, 7, 8, 6, {3, 3, 2, 1, 1, 1}, 2},
                              {2, 8, 9, 10, 8, {3, 3, 1, 1, 1, 1}, 8}};
  for (const ConvShape& s : shapes)
    for (int wanted = 0; wanted < 8; ++wanted)
      for (const bool gives_all : {false, true}) {
        SCOPED_TRACE(NumbersOf(s));
        Try(s, wanted, gives_all, kFloatTolerance);
      }
}

TEST_P(DeviceConvolutionBackward, GradientsOfAnEmptyBatchAreZeros) {
  for (const int64_t groups : {1, 2})
    for (int wanted = 0; wanted < 8; ++wanted)
      Try({0, 4, 9, 8, 6, {3, 2, 1, 1, 1, 0}, groups}, wanted, false, kFloatTolerance);
}

// A gradient of a weight is a sum over all pixels of all images, here of 12,800 terms.
TEST_P(DeviceConvolutionBackward, LongSumsKeepTheirDigits) {
  Try({8, 2, 40, 40, 3, {3, 3, 1, 1, 1, 1}}, /*wanted=*/7, true, kFloatTolerance);
}

}  // namespace
}  // namespace sluice::testing
