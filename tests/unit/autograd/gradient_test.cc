// Every operation and its gradients against float64 functions and their central differences.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops.h"
#include "sluice/autograd.h"
#include "unit/nn/reference.h"

namespace sluice {
namespace {

using reference::Function;
using reference::Geometry;
using reference::Random;
using reference::Tensor;
using Operation = std::function<NDArray(const std::vector<NDArray>&)>;

// `constants` follow the inputs and get no gradient.
void Check(const Operation& operation, const Function& function, const std::vector<Shape>& shapes, Rng* rng,
           const std::vector<Tensor>& constants = {}, Context context = cpu(0)) {
  std::vector<Tensor> inputs;
  std::vector<NDArray> arrays;
  for (const Shape& shape : shapes) {
    inputs.push_back(Random(shape, rng));
    arrays.push_back(reference::ToNDArray(inputs.back(), context));
    autograd::AttachGrad(arrays.back());
  }
  for (const Tensor& constant : constants) {
    inputs.push_back(constant);
    arrays.push_back(reference::ToNDArray(constant, context));
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = operation(arrays);
  }
  const Tensor expected = function(inputs);
  reference::ExpectClose(y, expected);
  const Tensor head = Random(expected.shape, rng);
  autograd::Backward({y}, {reference::ToNDArray(head, y.context())});
  for (size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "input " << i << " of shape " << shapes[i]);
    reference::ExpectClose(autograd::Grad(arrays[i]), reference::Gradient(function, inputs, i, head));
  }
}

Tensor Zip(const Tensor& a, const Tensor& b, const std::function<double(double, double)>& f) {
  Tensor out = a;
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = f(a.values[i], b.values[i]);
  return out;
}

class GradientTest : public ::testing::TestWithParam<int> {
 protected:
  int64_t UpTo(int64_t n) { return 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(n))); }
  int64_t Below(int64_t n) { return UpTo(n) - 1; }
  Shape RandomShape() {
    std::vector<int64_t> dims(rng_.Below(5));
    for (int64_t& dim : dims) dim = UpTo(4);
    return Shape(dims);
  }
  void CheckUnary(const Operation& operation, const std::function<double(double)>& f) {
    Check(
        operation, [&](const auto& v) { return reference::Map(v[0], f); }, {RandomShape()}, &rng_);
  }
  void CheckBinary(const Operation& operation, const std::function<double(double, double)>& f) {
    const Shape shape = RandomShape();
    Check(
        operation, [&](const auto& v) { return Zip(v[0], v[1], f); }, {shape, shape}, &rng_);
  }
  Rng rng_{static_cast<uint64_t>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Seeds, GradientTest, ::testing::Range(0, 12));

TEST_P(GradientTest, Arithmetic) {
  CheckBinary([](const auto& v) { return v[0] + v[1]; }, [](double a, double b) { return a + b; });
  CheckBinary([](const auto& v) { return v[0] - v[1]; }, [](double a, double b) { return a - b; });
  CheckBinary([](const auto& v) { return v[0] * v[1]; }, [](double a, double b) { return a * b; });
  CheckUnary([](const auto& v) { return v[0] * 2.5f; }, [](double a) { return 2.5 * a; });
  CheckUnary([](const auto& v) { return 2.5f * v[0] + 0.5f; }, [](double a) { return 2.5 * a + 0.5; });
  CheckUnary([](const auto& v) { return -v[0]; }, [](double a) { return -a; });
}

TEST_P(GradientTest, Activations) {
  CheckUnary([](const auto& v) { return ops::Relu(v[0]); }, [](double x) { return std::max(x, 0.0); });
  CheckUnary([](const auto& v) { return ops::Tanh(v[0]); }, [](double x) { return std::tanh(x); });
  CheckUnary([](const auto& v) { return ops::Sigmoid(v[0]); },
             [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST_P(GradientTest, ReusedValues) {
  CheckUnary([](const auto& v) { return v[0] * v[0]; }, [](double x) { return x * x; });
  CheckUnary([](const auto& v) { return v[0] + v[0] - v[0] * v[0] * v[0]; },
             [](double x) { return 2 * x - x * x * x; });
  CheckBinary(
      [](const auto& v) {
        const NDArray common = ops::Tanh(v[0] * v[1]);
        return common * v[0] + ops::Sigmoid(common) - v[1];
      },
      [](double a, double b) {
        const double common = std::tanh(a * b);
        return common * a + 1 / (1 + std::exp(-common)) - b;
      });
}

// By the place of each element in the whole, whatever the axis.
TEST_P(GradientTest, Slices) {
  Shape shape;
  while (shape.ndim() == 0) shape = RandomShape();
  const auto axis = static_cast<size_t>(Below(static_cast<int64_t>(shape.ndim())));
  const int64_t begin = Below(shape[axis]), end = begin + UpTo(shape[axis] - begin);
  const auto part = [&](const Tensor& x) {
    Tensor out(shape.WithExtent(axis, end - begin));
    int64_t inner = 1, at = 0;
    for (size_t i = axis + 1; i < shape.ndim(); ++i) inner *= shape[i];
    for (int64_t i = 0; i < shape.size(); ++i) {
      const int64_t place = i / inner % shape[axis];
      if (place >= begin && place < end) out.at(at++) = x.at(i);
    }
    return out;
  };
  Check([&](const auto& v) { return ops::Slice(v[0], axis, begin, end); },
        [&](const auto& v) { return part(v[0]); }, {shape}, &rng_);
  Check(
      [&](const auto& v) { return ops::Slice(v[0], axis, begin, end) * ops::Slice(v[1], axis, begin, end); },
      [&](const auto& v) { return Zip(part(v[0]), part(v[1]), [](double a, double b) { return a * b; }); },
      {shape, shape}, &rng_);
}

TEST_P(GradientTest, Dense) {
  const int64_t rows = UpTo(5), in = UpTo(9), units = UpTo(7);
  Check([](const auto& v) { return ops::Dense(v[0], v[1], v[2]); },
        [](const auto& v) { return reference::Dense(v[0], v[1], &v[2]); }, {{rows, in}, {units, in}, {units}},
        &rng_);
  Check([](const auto& v) { return ops::Dense(v[0], v[1], NDArray()); },
        [](const auto& v) { return reference::Dense(v[0], v[1], nullptr); }, {{rows, in}, {units, in}},
        &rng_);
}

TEST_P(GradientTest, Convolution) {
  const Geometry g{{UpTo(3), UpTo(3)}, {UpTo(2), UpTo(2)}, {Below(2), Below(2)}};
  const ops::Window2D window{g.window.height, g.window.width,   g.stride.height,
                             g.stride.width,  g.padding.height, g.padding.width};
  const int64_t channels = UpTo(3), filters = UpTo(3);
  const Shape x = {UpTo(2), channels, 3 + Below(3), 3 + Below(3)};
  const Shape w = {filters, channels, g.window.height, g.window.width};
  Check([&](const auto& v) { return ops::Conv2D(v[0], v[1], v[2], window); },
        [&](const auto& v) { return reference::Conv2D(v[0], v[1], &v[2], g); }, {x, w, {filters}}, &rng_);
  Check([&](const auto& v) { return ops::Conv2D(v[0], v[1], NDArray(), window); },
        [&](const auto& v) { return reference::Conv2D(v[0], v[1], nullptr, g); }, {x, w}, &rng_);
}

TEST_P(GradientTest, Pooling) {
  const int64_t height = UpTo(3), width = UpTo(3);
  const Geometry g{{height, width}, {UpTo(3), UpTo(3)}, {Below(height), Below(width)}};
  const ops::Window2D window{height,           width,          g.stride.height, g.stride.width,
                             g.padding.height, g.padding.width};
  const Shape x = {UpTo(2), UpTo(3), 3 + Below(4), 3 + Below(4)};
  Check([&](const auto& v) { return ops::MaxPool2D(v[0], window); },
        [&](const auto& v) { return reference::MaxPool2D(v[0], g); }, {x}, &rng_);
  Check([&](const auto& v) { return ops::AvgPool2D(v[0], window); },
        [&](const auto& v) { return reference::AvgPool2D(v[0], g); }, {x}, &rng_);
}

TEST_P(GradientTest, Shapes) {
  const int64_t a = UpTo(4), b = UpTo(4), c = UpTo(4);
  const auto as = [](const Shape& shape) {
    return [shape](const std::vector<Tensor>& v) {
      Tensor out(shape);
      out.values = v[0].values;
      return out;
    };
  };
  Check([](const auto& v) { return ops::Flatten(v[0]); }, as({a, b * c}), {{a, b, c}}, &rng_);
  Check([&](const auto& v) { return ops::Reshape(v[0], {c, a, b}); }, as({c, a, b}), {{a, b, c}}, &rng_);
  Check([&](const auto& v) { return v[0].Reshape({c, a, b}); }, as({c, a, b}), {{a, b, c}}, &rng_);
}

// Rows [begin, end) of an array, also where the rest of it has another use.
TEST_P(GradientTest, ViewsAndCopies) {
  const int64_t rows = UpTo(5), columns = UpTo(4), begin = Below(rows), end = begin + Below(rows - begin + 1);
  const auto cut = [=](const Tensor& x) {
    Tensor out(Shape{end - begin, columns});
    std::copy(x.values.begin() + begin * columns, x.values.begin() + end * columns, out.values.begin());
    return out;
  };
  Check([=](const auto& v) { return v[0].SliceRows(begin, end); }, [=](const auto& v) { return cut(v[0]); },
        {{rows, columns}}, &rng_);
  Check(
      [=](const auto& v) {
        const NDArray part = v[0].SliceRows(begin, end);
        return part * part + part.Reshape({columns, end - begin}).Copy().Reshape({end - begin, columns}) +
               (v[0] * 3).SliceRows(begin, end);
      },
      [=](const auto& v) {
        Tensor out = cut(v[0]);
        for (double& value : out.values) value = value * value + 4 * value;
        return out;
      },
      {{rows, columns}}, &rng_);
}

TEST_P(GradientTest, Sums) {
  const auto sum = [](const Tensor& x) {
    double total = 0;
    for (const double value : x.values) total += value;
    return total;
  };
  const auto scalar = [](double value) {
    Tensor out({1});
    out.values[0] = value;
    return out;
  };
  Check([](const auto& v) { return ops::Sum(v[0]); }, [&](const auto& v) { return scalar(sum(v[0])); },
        {RandomShape()}, &rng_);
  Check([](const auto& v) { return ops::Mean(v[0]); },
        [&](const auto& v) { return scalar(sum(v[0]) / static_cast<double>(v[0].values.size())); },
        {RandomShape()}, &rng_);
}

TEST_P(GradientTest, SoftmaxCrossEntropy) {
  const int64_t rows = UpTo(5), classes = UpTo(6);
  Tensor labels({rows});
  for (double& label : labels.values) label = static_cast<double>(Below(classes));
  Check([](const auto& v) { return ops::SoftmaxCrossEntropy(v[0], v[1]); },
        [&](const auto& v) {
          Tensor losses({rows});
          for (int64_t row = 0; row < rows; ++row) {
            double sum = 0;
            for (int64_t j = 0; j < classes; ++j) sum += std::exp(v[0].at(row * classes + j));
            losses.at(row) = std::log(sum) - v[0].at(row * classes + static_cast<int64_t>(v[1].at(row)));
          }
          return losses;
        },
        {{rows, classes}}, &rng_, {labels});
}

TEST_P(GradientTest, L2) {
  const Shape shape = {UpTo(4), UpTo(4), UpTo(4)};
  const int64_t rows = shape[0], columns = shape[1] * shape[2];
  Check([](const auto& v) { return ops::L2(v[0], v[1]); },
        [&](const auto& v) {
          Tensor losses({rows});
          for (int64_t i = 0; i < rows * columns; ++i) {
            losses.at(i / columns) +=
                0.5 * std::pow(v[0].at(i) - v[1].at(i), 2) / static_cast<double>(columns);
          }
          return losses;
        },
        {shape, shape}, &rng_);
}

TEST_P(GradientTest, AcrossContexts) {
  const int64_t rows = UpTo(4), in = UpTo(5), units = UpTo(5);
  Check(
      [](const auto& v) {
        const NDArray hidden = ops::Tanh(ops::Dense(v[0], v[1], NDArray())).AsInContext(cpu(1));
        return ops::Dense(hidden, v[2].AsInContext(cpu(1)), NDArray());
      },
      [](const auto& v) {
        const Tensor hidden =
            reference::Map(reference::Dense(v[0], v[1], nullptr), [](double x) { return std::tanh(x); });
        return reference::Dense(hidden, v[2], nullptr);
      },
      {{rows, in}, {units, in}, {3, units}}, &rng_);
}

TEST(EmptyGradientTest, NoRowsGiveZeroGradients) {
  Rng rng(1);
  const Geometry g{2, 1, 0};
  Check([](const auto& v) { return ops::Dense(v[0], v[1], v[2]); },
        [](const auto& v) { return reference::Dense(v[0], v[1], &v[2]); }, {{0, 3}, {2, 3}, {2}}, &rng);
  Check([](const auto& v) { return ops::Conv2D(v[0], v[1], v[2], {}); },
        [&](const auto& v) { return reference::Conv2D(v[0], v[1], &v[2], g); },
        {{0, 2, 4, 4}, {3, 2, 2, 2}, {3}}, &rng);
}

TEST(EmptyGradientTest, NoInputsLeaveTheBias) {
  Rng rng(2);
  Check([](const auto& v) { return ops::Dense(v[0], v[1], v[2]); },
        [](const auto& v) { return reference::Dense(v[0], v[1], &v[2]); }, {{2, 0}, {3, 0}, {3}}, &rng);
  Check([](const auto& v) { return ops::Dense(v[0], v[1], NDArray()); },
        [](const auto& v) { return reference::Dense(v[0], v[1], nullptr); }, {{2, 0}, {3, 0}}, &rng);
  Check([](const auto& v) { return ops::Dense(v[0], v[1], NDArray()); },
        [](const auto& v) { return reference::Dense(v[0], v[1], nullptr); }, {{2, 3}, {0, 3}}, &rng);
}

// As a program has whose batches are never twice of one size.
TEST(EndlessShapesTest, StayRight) {
  const NDArray weight = NDArray::From({1, 1, 1, 2, 2, 2}, {2, 3}), bias = NDArray::From({10, 20}, {2});
  for (int64_t rows = 1; rows <= 300; ++rows) {
    const std::vector<float> ones(static_cast<size_t>(3 * rows), 1);
    const std::vector<float> y =
        ops::Dense(NDArray::From(std::span<const float>(ones), {rows, 3}), weight, bias).ToVector();
    ASSERT_EQ(y.size(), static_cast<size_t>(2 * rows));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 2 == 0 ? 13 : 26) << rows << " rows, " << i;
  }
}

}  // namespace
}  // namespace sluice
