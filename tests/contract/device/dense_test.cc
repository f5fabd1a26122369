// The device contract of dense layers: their results, their gradients, and the arithmetics of products.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

struct Factors {
  const std::vector<float>* values;
  int64_t row_step, sum_step;  // from a row or column of the product to the next, and from a term to the next
};

// Returns the product [rows, columns] of float64, whose elements are sums of `terms` products.
std::vector<double> Product(int64_t rows, int64_t columns, int64_t terms, Factors a, Factors b) {
  std::vector<double> out;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += double{(*a.values)[static_cast<size_t>(i * a.row_step + k * a.sum_step)]} *
               double{(*b.values)[static_cast<size_t>(j * b.row_step + k * b.sum_step)]};
      out.push_back(sum);
    }
  return out;
}

// What a dense layer is given and gives.
struct Layer {
  DenseShape shape;
  std::vector<float> x, weight, bias, grad;
  std::vector<double> out() const {
    std::vector<double> sums =
        Product(shape.rows, shape.units, shape.in, {&x, shape.in, 1}, {&weight, shape.in, 1});
    for (size_t i = 0; i < sums.size() && !bias.empty(); ++i) sums[i] += bias[i % bias.size()];
    return sums;
  }
  std::vector<double> grad_x() const {
    return Product(shape.rows, shape.in, shape.units, {&grad, shape.units, 1}, {&weight, 1, shape.in});
  }
  std::vector<double> grad_weight() const {
    return Product(shape.units, shape.in, shape.rows, {&grad, 1, shape.units}, {&x, 1, shape.in});
  }
  std::vector<double> grad_bias() const {
    const std::vector<float> one{1};
    return Product(1, shape.units, shape.rows, {&one, 0, 0}, {&grad, 1, shape.units});
  }
};

constexpr struct {
  int64_t rows, in, units;
} kShapes[] = {{0, 3, 5},      {0, 0, 4},       {1, 1, 1},      {4, 0, 3},     {3, 5, 0},    {1, 7, 1},
               {1, 1, 9},      {5, 1, 1},       {2, 3, 4},      {7, 5, 3},     {16, 16, 16}, {17, 31, 15},
               {33, 1, 64},    {1, 784, 10},    {64, 127, 129}, {100, 300, 7}, {3, 513, 65}, {255, 9, 257},
               {32, 400, 120}, {200, 201, 203}, {1, 300, 401},  {301, 64, 2},  {1000, 20, 3}};

class DeviceDense : public DeviceTest {
 protected:
  // Calls `run` with a tolerance for every arithmetic, all shapes and some random ones.
  template <typename Run>
  void ForShapes(Run&& run) {
    for (const Arithmetic arithmetic : kArithmetics) {
      const auto run_shape = [&](int64_t rows, int64_t in, int64_t units) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(in) + " to " + std::to_string(units) +
                     ", " + NameOf(arithmetic));
        run(DenseShape{rows, in, units, arithmetic}, ToleranceOf(arithmetic));
      };
      for (const auto& [rows, in, units] : kShapes) run_shape(rows, in, units);
      for (int i = 0; i < 10; ++i) run_shape(Between(1, 50), Between(1, 50), Between(1, 50));
    }
  }

  // A layer of numbers in [-1, 1], or of whole numbers in [-8, 8].
  Layer RandomLayer(const DenseShape& s, bool has_bias, bool whole = false) {
    const auto random = [&](int64_t n) { return whole ? Whole<float>(n, -8, 8) : Uniform(n); };
    return {s, random(s.rows * s.in), random(s.units * s.in), random(has_bias ? s.units : 0),
            random(s.rows * s.units)};
  }

  std::vector<float> Dense(const Layer& layer, bool has_bias) {
    Clear();
    const float *const x = Input(layer.x), *const weight = Input(layer.weight);
    const float* const bias = has_bias ? Input(layer.bias) : nullptr;
    float* const out = Output<float>(layer.shape.rows * layer.shape.units);
    Run([&](Kernels& k) {
      k.Dense({.shape = layer.shape, .x = x, .weight = weight, .bias = bias, .out = out});
    });
    return Read(out);
  }

  // Which gradients to compute, and whether inputs that they do not need are null.
  struct Wanted {
    bool x = true, weight = true, bias = true, bare = false;
  };
  struct Gradients {
    std::vector<float> x, weight, bias;  // empty if not wanted
  };
  Gradients DenseBackward(const Layer& layer, const Wanted& wanted) {
    Clear();
    const DenseShape& s = layer.shape;
    const auto output = [&](bool is_wanted, int64_t n) { return is_wanted ? Output<float>(n) : nullptr; };
    const DenseBackwardArgs args = {.shape = s,
                                    .x = wanted.weight || !wanted.bare ? Input(layer.x) : nullptr,
                                    .weight = wanted.x || !wanted.bare ? Input(layer.weight) : nullptr,
                                    .grad = Input(layer.grad),
                                    .grad_x = output(wanted.x, s.rows * s.in),
                                    .grad_weight = output(wanted.weight, s.units * s.in),
                                    .grad_bias = output(wanted.bias, s.units)};
    Run([&](Kernels& k) { k.DenseBackward(args); });
    const auto read = [&](const float* p) { return p == nullptr ? std::vector<float>() : Read(p); };
    return {read(args.grad_x), read(args.grad_weight), read(args.grad_bias)};
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceDense);

TEST_P(DeviceDense, IsTheProductPlusTheBias) {
  ForShapes([&](const DenseShape& shape, double tolerance) {
    for (const bool has_bias : {true, false}) {
      SCOPED_TRACE(has_bias ? "bias" : "no bias");
      const Layer layer = RandomLayer(shape, has_bias);
      ExpectNear(Dense(layer, has_bias), layer.out(), tolerance);
    }
  });
}

TEST_P(DeviceDense, BackwardComputesAnyOfTheGradients) {
  ForShapes([&](const DenseShape& shape, double tolerance) {
    const Layer layer = RandomLayer(shape, false);
    const std::vector<double> grad_x = layer.grad_x(), grad_weight = layer.grad_weight(),
                              grad_bias = layer.grad_bias();
    for (int set = 0; set < 16; ++set) {
      const Wanted wanted{(set & 1) != 0, (set & 2) != 0, (set & 4) != 0, (set & 8) != 0};
      SCOPED_TRACE(std::string("gradients:") + (wanted.x ? " x" : "") + (wanted.weight ? " weight" : "") +
                   (wanted.bias ? " bias" : "") + (wanted.bare ? ", other inputs are null" : ""));
      const Gradients gradients = DenseBackward(layer, wanted);
      if (wanted.x) ExpectNear(gradients.x, grad_x, tolerance);
      if (wanted.weight) ExpectNear(gradients.weight, grad_weight, tolerance);
      if (wanted.bias) ExpectNear(gradients.bias, grad_bias);
    }
  });
}

// Small whole numbers are bfloat16s, and their products and sums are float32s; so no arithmetic rounds.
TEST_P(DeviceDense, WholeNumbersComeOutExactInEveryArithmetic) {
  ForShapes([&](const DenseShape& shape, double) {
    const Layer layer = RandomLayer(shape, true, /*whole=*/true);
    ExpectNear(Dense(layer, true), layer.out(), 0);
    const Gradients gradients = DenseBackward(layer, {});
    ExpectNear(gradients.x, layer.grad_x(), 0);
    ExpectNear(gradients.weight, layer.grad_weight(), 0);
    ExpectNear(gradients.bias, layer.grad_bias(), 0);
  });
}

// So that a loss that is not finite shows, whatever the other factor is.
TEST_P(DeviceDense, ANanFillsItsOwnRowOnly) {
  for (const Arithmetic arithmetic : kArithmetics)
    for (int i = 0; i < 12; ++i) {
      const int64_t rows = Between(1, 70), in = Between(1, 70), units = Between(1, 70);
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(in) + " to " + std::to_string(units) + ", " +
                   NameOf(arithmetic));
      Layer layer = RandomLayer({rows, in, units, arithmetic}, true);
      std::fill(layer.weight.begin(), layer.weight.end(), 0.0f);
      const int64_t row = Below(rows), column = Below(in);
      layer.x[static_cast<size_t>(row * in + column)] = std::numeric_limits<float>::quiet_NaN();
      ExpectNear(Dense(layer, true), layer.out(), 0);
      std::fill(layer.grad.begin(), layer.grad.end(), 0.0f);
      const Gradients gradients = DenseBackward(layer, {});
      ExpectNear(gradients.x, layer.grad_x(), 0);
      ExpectNear(gradients.weight, layer.grad_weight(), 0);
    }
}

}  // namespace
}  // namespace sluice::testing
