// The device contract of pooling in both layouts: maxima with their places, averages, and their gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The plane of one channel of one image, in an array of either layout.
struct Plane {
  int64_t begin, step;  // where its pixels lie
  size_t operator()(int64_t pixel) const { return static_cast<size_t>(begin + pixel * step); }
};
Plane PlaneOf(ImageLayout layout, int64_t channels, int64_t size, int64_t image, int64_t channel) {
  if (layout == ImageLayout::kRowMajor) return {(image * channels + channel) * size, 1};
  return {image * channels * size + channel, channels};
}

// Returns, for each output of a plane, the places in their plane of its window's inputs, in order.
std::vector<std::vector<int64_t>> WindowsOf(const PoolShape& s) {
  const WindowShape& w = s.window;
  std::vector<std::vector<int64_t>> windows;
  for (int64_t i = 0; i < s.out_height(); ++i)
    for (int64_t j = 0; j < s.out_width(); ++j) {
      std::vector<int64_t>& inputs = windows.emplace_back();
      for (int64_t r = 0; r < w.height; ++r)
        for (int64_t c = 0; c < w.width; ++c) {
          const int64_t row = i * w.stride_height - w.pad_height + r;
          const int64_t column = j * w.stride_width - w.pad_width + c;
          if (row >= 0 && row < s.in_height && column >= 0 && column < s.in_width)
            inputs.push_back(row * s.in_width + column);
        }
    }
  return windows;
}

// Calls visit(place of the output, plane of the inputs, their places in it) for all windows of all images.
template <typename Visit>
void ForWindows(ImageLayout layout, const PoolShape& s, Visit&& visit) {
  const std::vector<std::vector<int64_t>> windows = WindowsOf(s);
  const auto outs = static_cast<int64_t>(windows.size());
  for (int64_t image = 0; image < s.batch; ++image)
    for (int64_t channel = 0; channel < s.in_channels; ++channel) {
      const Plane in = PlaneOf(layout, s.in_channels, s.in_planes().size, image, channel);
      const Plane out = PlaneOf(layout, s.in_channels, outs, image, channel);
      for (int64_t i = 0; i < outs; ++i) visit(out(i), in, windows[static_cast<size_t>(i)]);
    }
}

// Returns the place in its plane of a window's maximum.
int64_t MaximumOf(const std::vector<float>& x, const Plane& plane, const std::vector<int64_t>& places) {
  int64_t best = places.front();
  for (const int64_t place : places) {
    const float value = x[plane(place)], largest = x[plane(best)];
    if (std::isnan(value) || (!std::isnan(largest) && value > largest)) best = place;
  }
  return best;
}

PoolShape ShapeOf(int64_t batch, int64_t channels, int64_t height, int64_t width, const WindowShape& window) {
  return {.batch = batch,
          .in_channels = channels,
          .in_height = height,
          .in_width = width,
          .out_channels = channels,
          .window = window};
}

class DevicePool : public DeviceTest {
 protected:
  static size_t OutputsOf(const PoolShape& s) {
    return static_cast<size_t>(s.batch * s.in_channels * s.out_height() * s.out_width());
  }
  static size_t InputsOf(const PoolShape& s) {
    return static_cast<size_t>(s.batch * s.in_channels * s.in_height * s.in_width);
  }

  // A shape of a few images, whose windows may overlap, leave gaps, or lie partly outside of the image.
  PoolShape RandomShape() {
    const auto extent = [&](int64_t window, int64_t pad) {
      return std::max<int64_t>(window - 2 * pad, 1) + Below(12);
    };
    WindowShape w{.height = Between(1, 5),
                  .width = Between(1, 5),
                  .stride_height = Between(1, 6),
                  .stride_width = Between(1, 6)};
    w.pad_height = Below(w.height), w.pad_width = Below(w.width);
    return ShapeOf(Between(1, 4), Between(1, 35), extent(w.height, w.pad_height),
                   extent(w.width, w.pad_width), w);
  }

  // Calls run(layout, shape) for usual, odd and random shapes.
  template <typename Run>
  void ForShapes(Run&& run) {
    const WindowShape two{2, 2, 2, 2}, three{3, 3, 2, 2, 1, 1};
    std::vector<PoolShape> shapes = {ShapeOf(0, 3, 4, 4, two),
                                     ShapeOf(2, 0, 4, 4, two),
                                     ShapeOf(1, 1, 1, 1, {}),
                                     ShapeOf(2, 6, 28, 28, two),
                                     ShapeOf(3, 16, 10, 10, two),
                                     ShapeOf(2, 17, 9, 11, two),
                                     ShapeOf(2, 3, 10, 11, two),
                                     ShapeOf(2, 18, 9, 10, two),
                                     ShapeOf(2, 64, 15, 17, three),
                                     ShapeOf(1, 3, 2, 2, {3, 3, 3, 3, 1, 1}),
                                     ShapeOf(2, 5, 7, 9, {3, 2, 1, 4, 0, 1}),
                                     ShapeOf(1, 33, 6, 6, {2, 3, 2, 3}),
                                     ShapeOf(2, 1, 1, 31, {1, 4, 1, 3, 0, 2}),
                                     ShapeOf(2, 2, 31, 1, {5, 1, 5, 1, 4, 0}),
                                     ShapeOf(1, 2, 8, 8, {1, 1, 3, 3}),
                                     ShapeOf(2, 70, 9, 9, {9, 9, 1, 1}),
                                     ShapeOf(1, 3, 40, 41, {40, 41, 1, 1}),
                                     ShapeOf(1, 15, 12, 12, {8, 8, 4, 4, 4, 4}),
                                     ShapeOf(1, 15, 12, 12, {9, 8, 3, 5, 4, 4}),
                                     ShapeOf(9, 8, 65, 64, three),
                                     ShapeOf(7, 9, 64, 64, two)};
    for (int i = 0; i < 40; ++i) shapes.push_back(RandomShape());
    for (const PoolShape& s : shapes)
      for (const ImageLayout layout : {ImageLayout::kRowMajor, ImageLayout::kChannelsLast}) {
        const WindowShape& w = s.window;
        const auto pair = [](int64_t a, int64_t b) { return std::to_string(a) + " x " + std::to_string(b); };
        SCOPED_TRACE(std::to_string(s.batch) + " images of " + std::to_string(s.in_channels) + " channels, " +
                     pair(s.in_height, s.in_width) + ", window " + pair(w.height, w.width) + ", stride " +
                     pair(w.stride_height, w.stride_width) + ", padding " + pair(w.pad_height, w.pad_width) +
                     (layout == ImageLayout::kRowMajor ? ", row-major" : ", channels last"));
        run(layout, s);
      }
  }

  // Expects of Pool the maxima of x, in every bit but those of a NaN, and their places.
  void ExpectMaxima(ImageLayout layout, const PoolShape& s, const std::vector<float>& x) {
    Clear();
    const float* const px = Input(x);
    const auto outputs = static_cast<int64_t>(OutputsOf(s));
    float* const out = Output<float>(outputs);
    auto* const where = Output<int32_t>(outputs);
    Run([&](Kernels& k) {
      k.Pool({.kind = PoolKind::kMax, .layout = layout, .shape = s, .x = px, .out = out, .where = where});
    });
    const std::vector<float> maxima = Read(out);
    const std::vector<int32_t> found = Read(where);
    int wrong = 0;
    ForWindows(layout, s, [&](size_t output, const Plane& in, const auto& places) {
      const int64_t best = MaximumOf(x, in, places);
      const float value = x[in(best)], actual = maxima[output];
      const bool same = std::isnan(value) ? std::isnan(actual)
                                          : actual == value && std::signbit(actual) == std::signbit(value);
      if ((same && found[output] == best) || ++wrong > 3) return;
      ADD_FAILURE() << "output " << output << " is " << actual << " from " << found[output] << ", not "
                    << value << " from " << best;
    });
  }
  // Averages numbers in [low, high).
  void ExpectAverages(ImageLayout layout, const PoolShape& s, double low, double high, double tolerance) {
    Clear();
    const std::vector<float> x = Uniform(static_cast<int64_t>(InputsOf(s)), low, high);
    const float* const px = Input(x);
    float* const out = Output<float>(static_cast<int64_t>(OutputsOf(s)));
    Run([&](Kernels& k) {
      k.Pool({.kind = PoolKind::kAverage, .layout = layout, .shape = s, .x = px, .out = out});
    });
    std::vector<double> expected(OutputsOf(s));
    ForWindows(layout, s, [&](size_t output, const Plane& in, const auto& places) {
      for (const int64_t place : places)
        expected[output] += x[in(place)] / static_cast<double>(s.window.height * s.window.width);
    });
    ExpectNear(Read(out), expected, tolerance);
  }
};
SLUICE_ON_EVERY_DEVICE(DevicePool);

TEST_P(DevicePool, MaximaAndTheirPlacesAreExact) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    ExpectMaxima(layout, s, Uniform(static_cast<int64_t>(InputsOf(s))));
  });
}

// With both zeros, which are equal, and images of nothing but the lowest number.
TEST_P(DevicePool, OfEqualMaximaTheFirstIsTaken) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    std::vector<float> x(InputsOf(s));
    for (float& value : x) value = static_cast<float>(Between(0, 1)) * (rng().Chance(0.5) ? 1.0f : -1.0f);
    ExpectMaxima(layout, s, x);
    for (float& value : x) value = -0.0f * static_cast<float>(Between(-1, 1));
    ExpectMaxima(layout, s, x);
    std::fill(x.begin(), x.end(), std::numeric_limits<float>::lowest());
    ExpectMaxima(layout, s, x);
  });
}

TEST_P(DevicePool, TheLastNanIsTakenAndInfinitiesAreNumbers) {
  constexpr float kValues[] = {kNan, kInf, -kInf, -1, 1, 0};
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    for (const int64_t nans : {1, 0}) {
      std::vector<float> x(InputsOf(s));
      for (float& value : x) value = kValues[Between(1 - nans, 5)];
      ExpectMaxima(layout, s, x);
    }
    ExpectMaxima(layout, s, std::vector<float>(InputsOf(s), -kInf));
    if (s.batch < 5) ExpectMaxima(layout, s, std::vector<float>(InputsOf(s), kNan));
  });
}

TEST_P(DevicePool, AveragesCountPadding) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) { ExpectAverages(layout, s, 0.5, 2, 2e-6); });
}

// A sum in float32 of one value after another would lose three digits.
TEST_P(DevicePool, AveragesOfWholeImagesKeepTheirDigits) {
  const PoolShape s = ShapeOf(2, 5, 224, 223, {224, 223});
  for (const ImageLayout layout : {ImageLayout::kRowMajor, ImageLayout::kChannelsLast}) {
    SCOPED_TRACE(layout == ImageLayout::kRowMajor ? "row-major" : "channels last");
    ExpectAverages(layout, s, 0.099, 0.1, 1e-6);
  }
}

// What is not finite reaches the averages of its own windows alone.
TEST_P(DevicePool, AveragesOfNanAndInfinity) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    Clear();
    std::vector<float> x(InputsOf(s), 0.0f);
    for (float& value : x)
      if (rng().Chance(0.05)) value = rng().Chance(0.5) ? kNan : kInf;
    const float* const px = Input(x);
    float* const out = Output<float>(static_cast<int64_t>(OutputsOf(s)));
    Run([&](Kernels& k) {
      k.Pool({.kind = PoolKind::kAverage, .layout = layout, .shape = s, .x = px, .out = out});
    });
    std::vector<double> expected(OutputsOf(s));
    ForWindows(layout, s, [&](size_t output, const Plane& in, const auto& places) {
      for (const int64_t place : places) expected[output] += x[in(place)];
    });
    ExpectNear(Read(out), expected);
  });
}

TEST_P(DevicePool, GradientsOfMaximaGoToTheirPlaces) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    Clear();
    const std::vector<float> x = Whole<float>(static_cast<int64_t>(InputsOf(s)), -2, 2);
    const std::vector<float> grad = Uniform(static_cast<int64_t>(OutputsOf(s)), 0.5, 1.5);
    std::vector<int32_t> maxima(grad.size());
    std::vector<double> expected(x.size());
    ForWindows(layout, s, [&](size_t output, const Plane& in, const auto& places) {
      const int64_t best = MaximumOf(x, in, places);
      maxima[output] = static_cast<int32_t>(best);
      expected[in(best)] += grad[output];
    });
    const float* const pg = Input(grad);
    const int32_t* const where = Input(maxima);
    float* const grad_x = Output<float>(static_cast<int64_t>(x.size()));
    Run([&](Kernels& k) {
      k.PoolBackward({.kind = PoolKind::kMax,
                      .layout = layout,
                      .shape = s,
                      .grad = pg,
                      .where = where,
                      .grad_x = grad_x});
    });
    ExpectNear(Read(grad_x), expected, 1e-6);
  });
}

TEST_P(DevicePool, GradientsOfAveragesGoToAllOfTheirWindow) {
  ForShapes([&](ImageLayout layout, const PoolShape& s) {
    Clear();
    const std::vector<float> grad = Uniform(static_cast<int64_t>(OutputsOf(s)), 0.5, 1.5);
    std::vector<double> expected(InputsOf(s));
    ForWindows(layout, s, [&](size_t output, const Plane& in, const auto& places) {
      for (const int64_t place : places)
        expected[in(place)] += grad[output] / static_cast<double>(s.window.height * s.window.width);
    });
    const float* const pg = Input(grad);
    float* const grad_x = Output<float>(static_cast<int64_t>(expected.size()));
    Run([&](Kernels& k) {
      k.PoolBackward(
          {.kind = PoolKind::kAverage, .layout = layout, .shape = s, .grad = pg, .grad_x = grad_x});
    });
    ExpectNear(Read(grad_x), expected, 1e-6);
  });
}

}  // namespace
}  // namespace sluice::testing
