// Plain layers in float64, and their gradients by central differences. Tests compare the real
// layers with them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "sluice/ndarray.h"
#include "sluice/nn.h"

namespace sluice::reference {

struct Tensor {
  Shape shape;
  std::vector<double> values;

  explicit Tensor(const Shape& shape) : shape(shape), values(static_cast<size_t>(shape.size())) {}
  double& at(int64_t i) { return values[static_cast<size_t>(i)]; }
  double at(int64_t i) const { return values[static_cast<size_t>(i)]; }
  // Returns element (n, c, h, w), or `border` if (h, w) is outside the image.
  double Pixel(int64_t n, int64_t c, int64_t h, int64_t w, double border) const {
    if (h < 0 || w < 0 || h >= shape[2] || w >= shape[3]) return border;
    return at(((n * shape[1] + c) * shape[2] + h) * shape[3] + w);
  }
};

inline Tensor Random(const Shape& shape, Rng* rng) {
  Tensor tensor(shape);
  // The values are rounded to float, so that both sides start from the same numbers.
  for (double& value : tensor.values) value = static_cast<float>(rng->Uniform(-1, 1));
  return tensor;
}

inline NDArray ToNDArray(const Tensor& tensor, Context context = cpu(0)) {
  const std::vector<float> values(tensor.values.begin(), tensor.values.end());
  return NDArray::From(std::span<const float>(values), tensor.shape, context);
}

inline Tensor Dense(const Tensor& x, const Tensor& w, const Tensor* b) {
  const int64_t batch = x.shape[0], units = w.shape[0], in = w.shape[1];
  Tensor y({batch, units});
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t u = 0; u < units; ++u) {
      double sum = b ? b->at(u) : 0;
      for (int64_t i = 0; i < in; ++i) sum += x.at(n * in + i) * w.at(u * in + i);
      y.at(n * units + u) = sum;
    }
  }
  return y;
}

struct Geometry {
  nn::Window window, stride, padding, dilation = 1;
  int64_t groups = 1;
  int64_t full_height() const { return dilation.height * (window.height - 1) + 1; }
  int64_t full_width() const { return dilation.width * (window.width - 1) + 1; }
};

// Returns y with y(n, c, oh, ow) = f(n, c, first row, first column) for every position of the window over x.
inline Tensor Slide(const Tensor& x, int64_t channels, const Geometry& g,
                    const std::function<double(int64_t, int64_t, int64_t, int64_t)>& f) {
  const int64_t rows = (x.shape[2] + 2 * g.padding.height - g.full_height()) / g.stride.height + 1;
  const int64_t columns = (x.shape[3] + 2 * g.padding.width - g.full_width()) / g.stride.width + 1;
  Tensor y({x.shape[0], channels, rows, columns});
  int64_t i = 0;
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t s = 0; s < columns; ++s) {
          y.at(i++) = f(n, c, r * g.stride.height - g.padding.height, s * g.stride.width - g.padding.width);
        }
      }
    }
  }
  return y;
}

inline Tensor Conv2D(const Tensor& x, const Tensor& w, const Tensor* b, const Geometry& g) {
  return Slide(x, w.shape[0], g, [&](int64_t n, int64_t c, int64_t top, int64_t left) {
    const int64_t first = c / (w.shape[0] / g.groups) * w.shape[1];  // first input channel of c's group
    double sum = b ? b->at(c) : 0;
    for (int64_t i = 0; i < w.shape[1]; ++i) {
      for (int64_t r = 0; r < g.window.height; ++r) {
        for (int64_t s = 0; s < g.window.width; ++s) {
          sum += x.Pixel(n, first + i, top + r * g.dilation.height, left + s * g.dilation.width, 0) *
                 w.Pixel(c, i, r, s, 0);
        }
      }
    }
    return sum;
  });
}

// Adds for every input element the kernel times this element to the output. `more` is the output padding.
inline Tensor Conv2DTranspose(const Tensor& x, const Tensor& w, const Tensor* b, const Geometry& g,
                              const nn::Window& more) {
  const int64_t outs = w.shape[1], ins = x.shape[1] / g.groups;  // channels of a group
  const int64_t height =
      (x.shape[2] - 1) * g.stride.height - 2 * g.padding.height + g.full_height() + more.height;
  const int64_t width = (x.shape[3] - 1) * g.stride.width - 2 * g.padding.width + g.full_width() + more.width;
  Tensor y({x.shape[0], outs * g.groups, height, width});
  const auto at = [&](int64_t n, int64_t c, int64_t h, int64_t v) -> double& {
    return y.at(((n * y.shape[1] + c) * height + h) * width + v);
  };
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t c = 0; c < y.shape[1]; ++c) {
      for (int64_t h = 0; h < height; ++h) {
        for (int64_t v = 0; v < width; ++v) at(n, c, h, v) = b ? b->at(c) : 0;
      }
    }
    for (int64_t i = 0; i < x.shape[1]; ++i) {
      for (int64_t p = 0; p < x.shape[2] * x.shape[3]; ++p) {
        const int64_t top = p / x.shape[3] * g.stride.height - g.padding.height,
                      left = p % x.shape[3] * g.stride.width - g.padding.width;
        const double value = x.Pixel(n, i, p / x.shape[3], p % x.shape[3], 0);
        for (int64_t k = 0; k < outs * g.window.height * g.window.width; ++k) {
          const int64_t o = k / (g.window.height * g.window.width), r = k / g.window.width % g.window.height,
                        s = k % g.window.width;
          const int64_t h = top + r * g.dilation.height, v = left + s * g.dilation.width;
          if (h < 0 || v < 0 || h >= height || v >= width) continue;
          at(n, i / ins * outs + o, h, v) += value * w.Pixel(i, o, r, s, 0);
        }
      }
    }
  }
  return y;
}

inline Tensor MaxPool2D(const Tensor& x, const Geometry& g) {
  return Slide(x, x.shape[1], g, [&](int64_t n, int64_t c, int64_t top, int64_t left) {
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t r = 0; r < g.window.height; ++r) {
      for (int64_t s = 0; s < g.window.width; ++s)
        best = std::max(best, x.Pixel(n, c, top + r, left + s, best));
    }
    return best;
  });
}

inline Tensor AvgPool2D(const Tensor& x, const Geometry& g) {
  return Slide(x, x.shape[1], g, [&](int64_t n, int64_t c, int64_t top, int64_t left) {
    double sum = 0;
    for (int64_t r = 0; r < g.window.height; ++r) {
      for (int64_t s = 0; s < g.window.width; ++s) sum += x.Pixel(n, c, top + r, left + s, 0);
    }
    return sum / static_cast<double>(g.window.height * g.window.width);
  });
}

inline Tensor Map(const Tensor& x, const std::function<double(double)>& f) {
  Tensor y = x;
  for (double& value : y.values) value = f(value);
  return y;
}

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Returns the gradient of sum(head * f(inputs)) with respect to inputs[which].
inline Tensor Gradient(const Function& f, std::vector<Tensor> inputs, size_t which, const Tensor& head) {
  constexpr double kStep = 1e-5;
  const auto weighted = [&] {
    const Tensor y = f(inputs);
    double sum = 0;
    for (size_t i = 0; i < y.values.size(); ++i) sum += head.values[i] * y.values[i];
    return sum;
  };
  Tensor gradient(inputs[which].shape);
  for (size_t i = 0; i < gradient.values.size(); ++i) {
    double& value = inputs[which].values[i];
    const double kept = value;
    value = kept + kStep;
    const double above = weighted();
    value = kept - kStep;
    gradient.values[i] = (above - weighted()) / (2 * kStep);
    value = kept;
  }
  return gradient;
}

inline void ExpectClose(const NDArray& actual, const Tensor& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.shape(), expected.shape);
  const std::vector<float> values = actual.ToVector();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected.values[i], tolerance * (1 + std::fabs(expected.values[i])))
        << "element " << i;
  }
}

}  // namespace sluice::reference
