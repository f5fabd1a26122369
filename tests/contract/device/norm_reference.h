// Batch and layer normalisation in float64, and the fixture that their tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "contract/device/device_test.h"
#include "contract/device/within.h"

namespace sluice::testing {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

// A normalisation in float64. Its groups, the elements that are normalised together, are the columns of x
// (batch normalisation) or the rows (layer normalisation); the factors are those of the columns in both.
struct NormReference {
  size_t rows, columns;
  bool by_row;
  double epsilon;
  bool fixed = false;  // The statistics are given and do not depend on x.
  bool relu = false;
  Floats x, gamma = {}, beta = {}, addend = {}, grad = {};  // Empty ones are null.
  Doubles mean = {}, variance = {}, inverse = {};           // The variance is the biased one.

  size_t groups() const { return by_row ? rows : columns; }
  size_t group(size_t i) const { return by_row ? i / columns : i % columns; }
  double count() const { return static_cast<double>(by_row ? columns : rows); }
  double Gamma(size_t i) const { return gamma.empty() ? 1 : double{gamma[i % columns]}; }
  double Normal(size_t i) const { return (x[i] - mean[group(i)]) * inverse[group(i)]; }
  // The result before relu.
  double Value(size_t i) const {
    const double shift = beta.empty() ? 0 : double{beta[i % columns]};
    return Normal(i) * Gamma(i) + shift + (addend.empty() ? 0 : double{addend[i]});
  }
  // The gradient by the result before relu.
  double Grad(size_t i) const { return relu && Value(i) <= 0 ? 0 : double{grad[i]}; }

  void SetStatistics(const Doubles& means, const Doubles& variances) {
    mean = means;
    variance = variances;
    for (const double v : variance) inverse.push_back(1 / std::sqrt(v + epsilon));
  }
  void TakeStatistics() {
    Doubles means(groups()), variances(groups());
    for (size_t i = 0; i < x.size(); ++i) means[group(i)] += x[i] / count();
    for (size_t i = 0; i < x.size(); ++i)
      variances[group(i)] += (x[i] - means[group(i)]) * (x[i] - means[group(i)]) / count();
    SetStatistics(means, variances);
  }
  Doubles Out() const {
    Doubles out;
    for (size_t i = 0; i < x.size(); ++i) out.push_back(relu ? std::max(Value(i), 0.0) : Value(i));
    return out;
  }
  // The magnitudes of what Out and the means are sums of.
  Doubles OutTerms() const {
    Doubles terms;
    for (size_t i = 0; i < x.size(); ++i) {
      const double shift = beta.empty() ? 0 : double{std::abs(beta[i % columns])};
      terms.push_back(std::abs(Normal(i) * Gamma(i)) + shift + (addend.empty() ? 0 : std::abs(addend[i])));
    }
    return terms;
  }
  Doubles MeanTerms() const {
    Doubles terms(groups());
    for (size_t i = 0; i < groups(); ++i) terms[i] = std::abs(mean[i]) + std::sqrt(variance[i]);
    return terms;
  }
};

struct NormGradients {
  Doubles x, gamma, beta;
  Doubles terms;  // The largest of the terms whose difference is x.
};

inline NormGradients GradientsOf(const NormReference& r) {
  NormGradients to{{}, Doubles(r.columns), Doubles(r.columns), {}};
  Doubles sums(r.groups()), products(r.groups());
  for (size_t i = 0; i < r.x.size(); ++i) {
    to.gamma[i % r.columns] += r.Grad(i) * r.Normal(i);
    to.beta[i % r.columns] += r.Grad(i);
    sums[r.group(i)] += r.Grad(i) * r.Gamma(i);
    products[r.group(i)] += r.Grad(i) * r.Gamma(i) * r.Normal(i);
  }
  for (size_t i = 0; i < r.x.size(); ++i) {
    const double own = r.Grad(i) * r.Gamma(i), sum = sums[r.group(i)], product = products[r.group(i)];
    const double others = r.fixed ? 0 : (sum + r.Normal(i) * product) / r.count();
    to.terms.push_back(own * r.inverse[r.group(i)]);
    to.x.push_back((own - others) * r.inverse[r.group(i)]);
  }
  return to;
}

struct NormCase {
  int64_t rows, columns;
  bool training = true, relu = false;                 // batch normalisation only
  bool gamma = true, beta = true, addend = false;     // whether they are given
  bool by_x = true, by_gamma = true, by_beta = true;  // which gradients are wanted
  double offset = 0;                                  // is added to every x
  double tolerance = kFloatTolerance;
  float momentum = 0.9f;
};

class NormTest : public DeviceTest {
 protected:
  const float* OrNull(const Floats& values) { return values.empty() ? nullptr : Input(values); }

  // Groups have means in [-3, 3], moved by the offset. Neighbours in a group lie on two sides of its mean, so
  // that the variance of a small group too is not much smaller than those of others.
  NormReference MakeReference(const NormCase& c, bool by_row) {
    NormReference r{.rows = static_cast<size_t>(c.rows),
                    .columns = static_cast<size_t>(c.columns),
                    .by_row = by_row,
                    .epsilon = kEpsilon,
                    .fixed = !c.training,
                    .relu = c.relu,
                    .x = Uniform(c.rows * c.columns, 0.3, 1)};
    const auto groups = static_cast<int64_t>(r.groups());
    const Floats means = Uniform(groups, -3, 3), widths = Uniform(groups, 0.5, 2);
    for (size_t i = 0; i < r.x.size(); ++i) {
      const size_t place = by_row ? i % r.columns : i / r.columns;
      const double side = place % 2 == 0 ? 1 : -1, mean = c.offset + double{means[r.group(i)]};
      r.x[i] = static_cast<float>(mean + side * r.x[i] * widths[r.group(i)]);
    }
    if (c.gamma) r.gamma = Uniform(c.columns, -2, 2);
    if (c.beta) r.beta = Uniform(c.columns);
    if (c.addend) r.addend = Uniform(c.rows * c.columns);
    return r;
  }
  // Gives r the gradients by the results. Those of results near 0, whose sign rounding may change, are 0.
  void MakeGrads(const NormCase& c, NormReference* r) {
    r->grad = Uniform(c.rows * c.columns);
    for (size_t i = 0; i < r->grad.size() && c.relu; ++i)
      if (std::abs(r->Value(i)) < 1e-3) r->grad[i] = 0;
  }

  struct GradientArrays {
    float *x, *gamma, *beta;
  };
  GradientArrays MakeGradientArrays(const NormCase& c) {
    return {c.by_x ? Output<float>(c.rows * c.columns) : nullptr,
            c.by_gamma ? Output<float>(c.columns) : nullptr, c.by_beta ? Output<float>(c.columns) : nullptr};
  }
  void ExpectGradients(const NormCase& c, const NormReference& r, const GradientArrays& to) {
    const NormGradients expected = GradientsOf(r);
    if (c.by_x) ExpectWithin(Read(to.x), expected.x, expected.terms, c.tolerance);
    Doubles grads;
    for (size_t i = 0; i < r.grad.size(); ++i) grads.push_back(r.Grad(i));
    if (c.by_gamma) ExpectWithin(Read(to.gamma), expected.gamma, grads, c.tolerance);
    if (c.by_beta) ExpectWithin(Read(to.beta), expected.beta, grads, c.tolerance);
  }

  static constexpr float kEpsilon = 1e-5f;
};

}  // namespace sluice::testing
