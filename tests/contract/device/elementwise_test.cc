// The device contract of elementwise arithmetic, and of the sums and means over rows.
#include <gtest/gtest.h>

#include <limits>

#include "contract/device/device_test.h"

namespace sluice::testing {
namespace {

constexpr int64_t kCounts[] = {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4097, 100'003};

class DeviceElementwise : public DeviceTest {
 protected:
  // Tries `run`(a, b, out, n) against `expected`(a_i, b_i), with an array for the result and with each input
  // in its place.
  template <typename Run, typename Expected>
  void Try(Run&& run, Expected&& expected, double low = -1, double high = 1) {
    for (const int64_t n : kCounts) {
      for (const char* out_is : {"apart", "a", "b", "both"}) {
        SCOPED_TRACE(std::to_string(n) + " elements, out is " + out_is);
        Clear();
        const std::vector<float> a = Uniform(n, low, high);
        const bool same = out_is == std::string("both");
        const std::vector<float> b = same ? a : Uniform(n, low, high);
        const float *pa = nullptr, *pb = nullptr;
        float* out = nullptr;
        if (out_is == std::string("apart")) {
          pa = Input(a), pb = Input(b), out = Output<float>(n);
        } else if (out_is == std::string("a")) {
          pa = out = InOut(a), pb = Input(b);
        } else if (out_is == std::string("b")) {
          pa = Input(a), pb = out = InOut(b);
        } else {
          pa = pb = out = InOut(a);
        }
        DeviceTest::Run([&](Kernels& kernels) { run(kernels, pa, pb, out, n); });
        std::vector<double> results;
        for (size_t i = 0; i < a.size(); ++i) results.push_back(expected(double{a[i]}, double{b[i]}));
        ExpectNear(Read(out), results);
      }
    }
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceElementwise);

TEST_P(DeviceElementwise, Combine) {
  for (const auto& [alpha, beta] : {std::pair{1.0f, 1.0f}, {1.0f, -1.0f}, {0.5f, 0.0f}, {-3.0f, 0.25f}}) {
    Try([&](Kernels& k, const float* a, const float* b, float* out,
            int64_t n) { k.Combine({.alpha = alpha, .a = a, .beta = beta, .b = b, .out = out, .n = n}); },
        [&](double a, double b) { return alpha * a + beta * b; });
  }
}

TEST_P(DeviceElementwise, Multiply) {
  Try([](Kernels& k, const float* a, const float* b, float* out,
         int64_t n) { k.Multiply({.a = a, .b = b, .out = out, .n = n}); },
      [](double a, double b) { return a * b; });
}

TEST_P(DeviceElementwise, Divide) {
  Try([](Kernels& k, const float* a, const float* b, float* out,
         int64_t n) { k.Divide({.a = a, .b = b, .out = out, .n = n}); },
      [](double a, double b) { return a / b; }, 0.5, 2);
  Try([](Kernels& k, const float* a, const float*, float* out,
         int64_t n) { k.Divide({.a = a, .scalar = 3, .out = out, .n = n}); },
      [](double a, double) { return a / 3; }, 0.5, 2);
  Try([](Kernels& k, const float*, const float* b, float* out,
         int64_t n) { k.Divide({.b = b, .scalar = -7, .out = out, .n = n}); },
      [](double, double b) { return -7 / b; }, 0.5, 2);
}

// IEEE 754 as it is: nothing is rounded to 0, and 0 / 0 is NaN.
TEST_P(DeviceElementwise, DivideBy0AndOfTinyNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float* const a = Input<float>({1, -1, 0, kInf, 0x1p-140f, 3});
  const float* const b = Input<float>({0, 0, 0, 2, 0.5f, kInf});
  float* const out = Output<float>(6);
  Run([&](Kernels& k) { k.Divide({.a = a, .b = b, .out = out, .n = 6}); });
  const std::vector<float> result = Read(out);
  EXPECT_EQ(result[0], kInf);
  EXPECT_EQ(result[1], -kInf);
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_EQ(result[3], kInf);
  EXPECT_EQ(result[4], 0x1p-139f);
  EXPECT_EQ(result[5], 0);
}

TEST_P(DeviceElementwise, Affine) {
  for (const auto& [scale, shift] : {std::pair{1.0f, 0.5f}, {-2.0f, 0.0f}, {0.0f, 3.0f}}) {
    Try([&](Kernels& k, const float* a, const float*, float* out,
            int64_t n) { k.Affine({.a = a, .scale = scale, .shift = shift, .out = out, .n = n}); },
        [&](double a, double) { return scale * a + shift; });
  }
}

class DeviceReduce : public DeviceTest {
 protected:
  // Calls `run` for rows x columns of many kinds.
  template <typename Run>
  void ForShapes(Run&& run) {
    for (const int64_t rows : {0, 1, 2, 5, 33, 300})
      for (const int64_t columns : {0, 1, 3, 8, 31, 64, 129, 1001}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        Clear();
        run(rows, columns);
      }
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceReduce);

TEST_P(DeviceReduce, Sum) {
  ForShapes([&](int64_t rows, int64_t columns) {
    const std::vector<float> a = Uniform(rows * columns, 0, 1);
    const float* const pa = Input(a);
    float* const sums = Output<float>(rows);
    Run([&](Kernels& k) { k.Sum({.a = pa, .sums = sums, .rows = rows, .columns = columns}); });
    std::vector<double> expected(static_cast<size_t>(rows));
    for (size_t i = 0; i < a.size(); ++i) expected[i / static_cast<size_t>(columns)] += a[i];
    ExpectNear(Read(sums), expected, 1e-6);
  });
}

// A sum of many numbers beside a large one needs more than float32 to add them up in.
TEST_P(DeviceReduce, SumOfManyNumbersKeepsSmallOnes) {
  constexpr int64_t kColumns = 1'000'001;
  std::vector<float> a(kColumns, 0.25f);
  a[0] = 0x1p24f;
  const float* const pa = Input(a);
  float* const sums = Output<float>(1);
  Run([&](Kernels& k) { k.Sum({.a = pa, .sums = sums, .rows = 1, .columns = kColumns}); });
  EXPECT_EQ(Read(sums)[0], 0x1p24f + 250'000);
}

TEST_P(DeviceReduce, SumOfRows) {
  ForShapes([&](int64_t rows, int64_t columns) {
    const std::vector<float> a = Uniform(rows * columns, 0, 1);
    const float* const pa = Input(a);
    float* const sums = Output<float>(columns);
    Run([&](Kernels& k) { k.SumOfRows({.a = pa, .sums = sums, .rows = rows, .columns = columns}); });
    std::vector<double> expected(static_cast<size_t>(columns));
    for (size_t i = 0; i < a.size(); ++i) expected[i % static_cast<size_t>(columns)] += a[i];
    ExpectNear(Read(sums), expected);
  });
}

TEST_P(DeviceReduce, AddToRows) {
  ForShapes([&](int64_t rows, int64_t columns) {
    const std::vector<float> before = Uniform(rows * columns), values = Uniform(columns);
    const float* const pv = Input(values);
    float* const out = InOut(before);
    Run([&](Kernels& k) { k.AddToRows({.values = pv, .out = out, .rows = rows, .columns = columns}); });
    std::vector<double> expected(before.begin(), before.end());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += values[i % static_cast<size_t>(columns)];
    ExpectNear(Read(out), expected, 1e-6);
  });
}

TEST_P(DeviceReduce, FillRows) {
  ForShapes([&](int64_t rows, int64_t columns) {
    const std::vector<float> values = Uniform(rows);
    const float* const pv = Input(values);
    float* const out = Output<float>(rows * columns);
    Run([&](Kernels& k) { k.FillRows({.values = pv, .out = out, .rows = rows, .columns = columns}); });
    const std::vector<float> result = Read(out);
    for (size_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(result[i], values[i / static_cast<size_t>(columns)]) << "element " << i;
  });
}

TEST_P(DeviceReduce, MeanOfStepsAndItsGradient) {
  for (const int64_t n : {0, 1, 5, 40})
    for (const int64_t steps : {1, 2, 35})
      for (const int64_t columns : {1, 7, 64, 130}) {
        SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(steps) + " x " + std::to_string(columns));
        Clear();
        const std::vector<float> x = Uniform(n * steps * columns), grad = Uniform(n * columns);
        const float *const px = Input(x), *const pg = Input(grad);
        float *const out = Output<float>(n * columns), *const grad_x = Output<float>(n * steps * columns);
        Run([&](Kernels& k) {
          k.MeanOfSteps({.x = px, .out = out, .n = n, .steps = steps, .columns = columns});
          k.MeanOfStepsBackward({.grad = pg, .grad_x = grad_x, .n = n, .steps = steps, .columns = columns});
        });
        std::vector<double> mean(grad.size()), expected(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const auto c = static_cast<size_t>(columns), s = static_cast<size_t>(steps);
          const size_t at = i / (s * c) * c + i % c;
          mean[at] += double{x[i]} / static_cast<double>(steps);
          expected[i] = double{grad[at]} / static_cast<double>(steps);
        }
        ExpectNear(Read(out), mean);
        ExpectNear(Read(grad_x), expected);
      }
}

}  // namespace
}  // namespace sluice::testing
