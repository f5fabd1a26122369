// The activations and their derivatives in float64, by the formulas of sluice/nn/activation.h.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tensor/kernels/activation.h"

namespace sluice::testing {

// Every kind, with an alpha where it has one: first the alpha that a layer has unless it is told another.
inline constexpr ActivationShape kActivations[] = {
    {ActivationKind::kRelu},         {ActivationKind::kTanh},
    {ActivationKind::kSigmoid},      {ActivationKind::kLeakyRelu, 0.01f},
    {ActivationKind::kLeakyRelu, 0}, {ActivationKind::kLeakyRelu, 0.75f},
    {ActivationKind::kElu, 1},       {ActivationKind::kElu, 0},
    {ActivationKind::kElu, 0.3f},    {ActivationKind::kGelu},
    {ActivationKind::kSoftplus},     {ActivationKind::kSilu},
    {ActivationKind::kSoftsign},     {ActivationKind::kLogSigmoid},
    {ActivationKind::kMish},
};

// The names in the order of the kinds.
inline constexpr const char* kActivationNames[] = {"relu",     "tanh",        "sigmoid",  "leaky_relu",
                                                   "elu",      "gelu",        "softplus", "silu",
                                                   "softsign", "log_sigmoid", "mish"};

inline std::string NameOf(const ActivationShape& a) {
  return kActivationNames[static_cast<size_t>(a.kind)] + std::string(" with alpha ") +
         std::to_string(a.alpha);
}

// Returns the activation with the name that layers take, and with a layer's alpha.
inline ActivationShape ActivationNamed(std::string_view name) {
  for (const ActivationShape& a : kActivations)
    if (name == kActivationNames[static_cast<size_t>(a.kind)]) return a;
  throw std::invalid_argument("activation_formulas.h has no formula for " + std::string(name));
}

inline double SigmoidOf(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
// log(1 + e^x), for numbers of any size.
inline double SoftplusOf(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
}
// The distribution function of the standard normal distribution.
inline double NormalOf(double x) {
  return std::erfc(-x * std::sqrt(0.5)) / 2;
}

// Returns the activation of x, and NaN for NaN.
inline double Activated(const ActivationShape& a, double x) {
  const double alpha = a.alpha;
  switch (a.kind) {
    case ActivationKind::kRelu:
      return x <= 0 ? 0 : x;
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSigmoid:
      return SigmoidOf(x);
    case ActivationKind::kLeakyRelu:
      return x > 0 ? x : alpha * x;
    case ActivationKind::kElu:
      return x > 0 ? x : alpha * std::expm1(x);
    case ActivationKind::kGelu:
      return x * NormalOf(x);
    case ActivationKind::kSoftplus:
      return SoftplusOf(x);
    case ActivationKind::kSilu:
      return x * SigmoidOf(x);
    case ActivationKind::kSoftsign:
      return x / (1 + std::abs(x));
    case ActivationKind::kLogSigmoid:
      return -SoftplusOf(-x);
    case ActivationKind::kMish:
      return x * std::tanh(SoftplusOf(x));
  }
  return std::nan("");
}

// Returns the derivative of the activation at x; those that have none at 0 have the one of x < 0 there.
inline double Derivative(const ActivationShape& a, double x) {
  const double alpha = a.alpha, s = SigmoidOf(x);
  switch (a.kind) {
    case ActivationKind::kRelu:
      return x > 0 ? 1 : 0;
    case ActivationKind::kTanh:
      return 1 / (std::cosh(x) * std::cosh(x));
    case ActivationKind::kSigmoid:
      return s * SigmoidOf(-x);
    case ActivationKind::kLeakyRelu:
      return x > 0 ? 1 : alpha;
    case ActivationKind::kElu:
      return x > 0 ? 1 : alpha * std::exp(x);
    case ActivationKind::kGelu:
      return NormalOf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    case ActivationKind::kSoftplus:
      return s;
    case ActivationKind::kSilu:
      return s + x * s * SigmoidOf(-x);
    case ActivationKind::kSoftsign:
      return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
    case ActivationKind::kLogSigmoid:
      return SigmoidOf(-x);
    case ActivationKind::kMish: {
      const double t = std::tanh(SoftplusOf(x));
      return t + x * (1 - t * t) * s;
    }
  }
  return std::nan("");
}

}  // namespace sluice::testing
