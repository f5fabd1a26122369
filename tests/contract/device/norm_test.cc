// The device contract of batch and layer normalisation: results, statistics and gradients.
#include <gtest/gtest.h>

#include <limits>

#include "contract/device/norm_reference.h"

namespace sluice::testing {
namespace {

class DeviceBatchNorm : public NormTest {
 protected:
  // Tries the forward method and, where the case has no addend, the backward one after it.
  void Try(const NormCase& c) {
    SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.columns) +
                 (c.training ? ", training" : "") + (c.relu ? ", relu" : "") + (c.gamma ? ", gamma" : "") +
                 (c.beta ? ", beta" : "") + (c.addend ? ", addend" : "") + (c.by_x ? ", by x" : "") +
                 (c.by_gamma ? ", by gamma" : "") + (c.by_beta ? ", by beta" : ""));
    Clear();
    NormReference r = MakeReference(c, /*by_row=*/false);
    const Floats mean = Uniform(c.columns, -2, 2), variance = Uniform(c.columns, 0.5, 2);
    if (c.training) {
      r.TakeStatistics();
    } else {
      r.SetStatistics({mean.begin(), mean.end()}, {variance.begin(), variance.end()});
    }
    MakeGrads(c, &r);
    const BatchNormArgs args{.shape = ShapeOf(c),
                             .x = Input(r.x),
                             .gamma = OrNull(r.gamma),
                             .beta = OrNull(r.beta),
                             .addend = OrNull(r.addend),
                             .running_mean = InOut(mean),
                             .running_variance = InOut(variance),
                             .out = Output<float>(c.rows * c.columns),
                             .mean = Output<float>(c.columns),
                             .inverse = Output<float>(c.columns)};
    const float* const grad = Input(r.grad);
    const GradientArrays to = c.addend ? GradientArrays{} : MakeGradientArrays(c);
    Run([&](Kernels& k) {
      k.BatchNorm(args);
      if (c.addend) return;
      k.BatchNormBackward({.shape = args.shape,
                           .x = args.x,
                           .gamma = args.gamma,
                           .beta = args.beta,
                           .mean = args.mean,
                           .inverse = args.inverse,
                           .grad = grad,
                           .grad_x = to.x,
                           .grad_gamma = to.gamma,
                           .grad_beta = to.beta});
    });
    ExpectWithin(Read(args.out), r.Out(), r.OutTerms(), c.tolerance);
    ExpectWithin(Read(args.mean), r.mean, r.MeanTerms(), kFloatTolerance);
    ExpectNear(Read(args.inverse), r.inverse, c.tolerance);
    ExpectRunning(c, r, mean, Read(args.running_mean), variance, Read(args.running_variance));
    if (!c.addend) ExpectGradients(c, r, to);
  }

  static BatchNormShape ShapeOf(const NormCase& c) {
    return {.rows = c.rows,
            .channels = c.columns,
            .epsilon = kEpsilon,
            .momentum = c.momentum,
            .training = c.training,
            .relu = c.relu};
  }
  static void ExpectRunning(const NormCase& c, const NormReference& r, const Floats& mean,
                            const Floats& mean_now, const Floats& variance, const Floats& variance_now) {
    if (!c.training || c.rows == 1) {
      EXPECT_EQ(variance_now, variance);
    }
    if (!c.training) {
      EXPECT_EQ(mean_now, mean);
      return;
    }
    Doubles means, terms, variances;
    const double keep = c.momentum, unbiased = r.count() / (r.count() - 1);
    for (size_t i = 0; i < r.columns; ++i) {
      means.push_back(keep * mean[i] + (1 - keep) * r.mean[i]);
      terms.push_back(std::abs(keep * mean[i]) + std::abs((1 - keep) * r.mean[i]));
      variances.push_back(keep * variance[i] + (1 - keep) * r.variance[i] * unbiased);
    }
    ExpectWithin(mean_now, means, terms, kFloatTolerance);
    if (c.rows > 1) ExpectNear(variance_now, variances, c.tolerance);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceBatchNorm);

constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 1},  {1, 6},   {2, 1},   {2, 5},
                                                   {3, 17}, {33, 64}, {20, 65}, {101, 7}};

bool Bit(int bits, int i) {
  return (bits >> i & 1) != 0;
}

TEST_P(DeviceBatchNorm, ResultsAndStatisticsOfEveryCombinationOfArguments) {
  for (const auto& [rows, columns] : kShapes)
    for (int bits = 0; bits < 32; ++bits)
      Try({.rows = rows,
           .columns = columns,
           .training = Bit(bits, 0),
           .relu = Bit(bits, 1),
           .gamma = Bit(bits, 2),
           .beta = Bit(bits, 3),
           .addend = Bit(bits, 4),
           .momentum = Bit(bits, 2) ? 0.9f : 0.25f});
}

TEST_P(DeviceBatchNorm, EveryCombinationOfGradients) {
  for (const auto& [rows, columns] : kShapes)
    for (int bits = 0; bits < 128; ++bits)
      Try({.rows = rows,
           .columns = columns,
           .training = Bit(bits, 0),
           .relu = Bit(bits, 1),
           .gamma = Bit(bits, 2),
           .beta = Bit(bits, 3),
           .by_x = Bit(bits, 4),
           .by_gamma = Bit(bits, 5),
           .by_beta = Bit(bits, 6)});
}

TEST_P(DeviceBatchNorm, ManyRowsAndManyChannels) {
  for (const auto& [rows, columns] : {std::pair{2201, 31}, {70'001, 1}, {13, 5501}})
    for (const int bits : {0b000, 0b011, 0b101})
      Try({.rows = rows,
           .columns = columns,
           .training = Bit(bits, 0),
           .relu = Bit(bits, 1),
           .addend = Bit(bits, 2)});
}

// The mean is a float32, which alone is 3e-5 of these deviations off; a variance from sums of squares in
// float32 has no digit left.
TEST_P(DeviceBatchNorm, LargeMeansLeaveTheVariance) {
  for (const double offset : {1000.0, -1000.0})
    for (const int64_t rows : {2, 64, 5000})
      for (const bool training : {true, false})
        Try({.rows = rows,
             .columns = 9,
             .training = training,
             .offset = training ? offset : 0,
             .tolerance = 5e-4});
}

// The first row is no hint at the others: it lies 1000 deviations away.
TEST_P(DeviceBatchNorm, AFirstRowThatLiesFarOffLeavesTheVariance) {
  constexpr int64_t kRows = 4000;
  NormReference r{.rows = kRows, .columns = 1, .by_row = false, .epsilon = kEpsilon, .x = Uniform(kRows)};
  r.x[0] = 1000;
  r.TakeStatistics();
  const BatchNormArgs args{.shape = ShapeOf({.rows = kRows, .columns = 1}),
                           .x = Input(r.x),
                           .running_mean = InOut<float>({0}),
                           .running_variance = InOut<float>({1}),
                           .out = Output<float>(kRows),
                           .mean = Output<float>(1),
                           .inverse = Output<float>(1)};
  Run([&](Kernels& k) { k.BatchNorm(args); });
  ExpectNear(Read(args.out), r.Out());
  ExpectNear(Read(args.inverse), r.inverse);
}

TEST_P(DeviceBatchNorm, AConstantChannelBecomesBeta) {
  constexpr int64_t kRows = 1000;
  const BatchNormArgs args{.shape = ShapeOf({.rows = kRows, .columns = 1}),
                           .x = Input(Floats(kRows, 1000.1f)),
                           .beta = Input<float>({0.5f}),
                           .running_mean = InOut<float>({0}),
                           .running_variance = InOut<float>({1}),
                           .out = Output<float>(kRows),
                           .mean = Output<float>(1),
                           .inverse = Output<float>(1)};
  Run([&](Kernels& k) { k.BatchNorm(args); });
  for (const float value : Read(args.out)) ASSERT_NEAR(value, 0.5, 0.05);
  EXPECT_NEAR(Read(args.running_variance)[0], 0.9, 1e-4);
}

TEST_P(DeviceBatchNorm, ReluHidesNoNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const bool addend : {false, true}) {
    Clear();
    const BatchNormArgs args{.shape = ShapeOf({.rows = 4, .columns = 1, .training = false, .relu = true}),
                             .x = Input<float>({-2, kNaN, 2, 0}),
                             .addend = addend ? Input<float>({0, 0, 0, 0}) : nullptr,
                             .running_mean = InOut<float>({0}),
                             .running_variance = InOut<float>({1 - kEpsilon}),
                             .out = Output<float>(4),
                             .mean = Output<float>(1),
                             .inverse = Output<float>(1)};
    Run([&](Kernels& k) { k.BatchNorm(args); });
    ExpectNear(Read(args.out), {0, double{kNaN}, 2, 0});
  }
}

TEST_P(DeviceBatchNorm, NoRowsLeaveTheRunningStatisticsAndGiveGradientsOf0) {
  const Floats mean = Uniform(5), variance = Uniform(5, 0.5, 2);
  for (const bool training : {true, false}) {
    Clear();
    const BatchNormArgs args{.shape = ShapeOf({.rows = 0, .columns = 5, .training = training}),
                             .x = Input<float>({}),
                             .running_mean = InOut(mean),
                             .running_variance = InOut(variance),
                             .out = Output<float>(0),
                             .mean = Output<float>(5),
                             .inverse = Output<float>(5)};
    const float* const grad = Input<float>({});
    const GradientArrays to = MakeGradientArrays({.rows = 0, .columns = 5});
    Run([&](Kernels& k) {
      k.BatchNorm(args);
      k.BatchNormBackward({.shape = args.shape,
                           .x = args.x,
                           .mean = args.mean,
                           .inverse = args.inverse,
                           .grad = grad,
                           .grad_x = to.x,
                           .grad_gamma = to.gamma,
                           .grad_beta = to.beta});
    });
    EXPECT_EQ(Read(args.running_mean), mean);
    EXPECT_EQ(Read(args.running_variance), variance);
    EXPECT_EQ(Read(to.gamma), Floats(5, 0));
    EXPECT_EQ(Read(to.beta), Floats(5, 0));
  }
}

class DeviceLayerNorm : public NormTest {
 protected:
  void Try(const NormCase& c) {
    SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.columns) + (c.gamma ? ", gamma" : "") +
                 (c.beta ? ", beta" : "") + (c.by_x ? ", by x" : "") + (c.by_gamma ? ", by gamma" : "") +
                 (c.by_beta ? ", by beta" : ""));
    Clear();
    NormReference r = MakeReference(c, /*by_row=*/true);
    r.TakeStatistics();
    MakeGrads(c, &r);
    const LayerNormArgs args{.rows = c.rows,
                             .columns = c.columns,
                             .epsilon = kEpsilon,
                             .x = Input(r.x),
                             .gamma = OrNull(r.gamma),
                             .beta = OrNull(r.beta),
                             .out = Output<float>(c.rows * c.columns),
                             .mean = Output<float>(c.rows),
                             .inverse = Output<float>(c.rows)};
    const float* const grad = Input(r.grad);
    const GradientArrays to = MakeGradientArrays(c);
    Run([&](Kernels& k) {
      k.LayerNorm(args);
      k.LayerNormBackward({.rows = c.rows,
                           .columns = c.columns,
                           .x = args.x,
                           .gamma = args.gamma,
                           .mean = args.mean,
                           .inverse = args.inverse,
                           .grad = grad,
                           .grad_x = to.x,
                           .grad_gamma = to.gamma,
                           .grad_beta = to.beta});
    });
    ExpectWithin(Read(args.out), r.Out(), r.OutTerms(), c.tolerance);
    ExpectWithin(Read(args.mean), r.mean, r.MeanTerms(), kFloatTolerance);
    ExpectNear(Read(args.inverse), r.inverse, c.tolerance);
    ExpectGradients(c, r, to);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceLayerNorm);

TEST_P(DeviceLayerNorm, EveryCombinationOfArgumentsAndGradients) {
  for (const auto& [rows, columns] : kShapes)
    for (int bits = 0; bits < 32; ++bits)
      Try({.rows = rows,
           .columns = columns,
           .gamma = Bit(bits, 0),
           .beta = Bit(bits, 1),
           .by_x = Bit(bits, 2),
           .by_gamma = Bit(bits, 3),
           .by_beta = Bit(bits, 4)});
}

TEST_P(DeviceLayerNorm, ManyRowsAndManyColumns) {
  for (const auto& [rows, columns] : {std::pair{4099, 31}, {1, 100'003}, {13, 9001}, {9001, 1}})
    Try({.rows = rows, .columns = columns});
}

TEST_P(DeviceLayerNorm, NoRowsGiveGradientsOf0) {
  Try({.rows = 0, .columns = 5});
}

// The tolerance is that of batch normalisation above, and room for a mean that is summed up in float32.
TEST_P(DeviceLayerNorm, LargeMeansLeaveTheVariance) {
  for (const double offset : {1000.0, -1000.0})
    for (const int64_t columns : {2, 64, 768, 5000})
      Try({.rows = 9, .columns = columns, .offset = offset, .tolerance = 1e-3});
}

TEST_P(DeviceLayerNorm, AConstantRowBecomesBeta) {
  constexpr int64_t kColumns = 1000;
  const Floats beta = Uniform(kColumns);
  const LayerNormArgs args{.rows = 1,
                           .columns = kColumns,
                           .epsilon = kEpsilon,
                           .x = Input(Floats(kColumns, 10.1f)),
                           .beta = Input(beta),
                           .out = Output<float>(kColumns),
                           .mean = Output<float>(1),
                           .inverse = Output<float>(1)};
  Run([&](Kernels& k) { k.LayerNorm(args); });
  const Floats out = Read(args.out);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], beta[i], 0.05);
}

}  // namespace
}  // namespace sluice::testing
