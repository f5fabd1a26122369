// The formulas of adam, adamw and lamb, which step by bias-corrected moments of the gradient.
// include/sluice/optimizer.h has them in mathematical notation; gradient.h says what a formula is.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "optimizer/formulas/gradient.h"

namespace sluice::formulas {

template <typename T>
struct Moments {
  static constexpr std::array<std::string_view, 2> kSlots = {"mean", "variance"};
  T beta1, beta2;
  T rest1, rest2;  // 1 - beta, subtracted in double: in float only five digits of 1 - 0.999 are right
  T correction1, correction2, epsilon;

  explicit Moments(const Update& u)
      : beta1(static_cast<T>(u.config.beta1)),
        beta2(static_cast<T>(u.config.beta2)),
        rest1(static_cast<T>(1 - u.config.beta1)),
        rest2(static_cast<T>(1 - u.config.beta2)),
        correction1(Correction(u.config.beta1, u.step.num_update)),
        correction2(Correction(u.config.beta2, u.step.num_update)),
        epsilon(static_cast<T>(u.config.epsilon)) {}
  static T Correction(double beta, int64_t updates) {
    return static_cast<T>(1 / (1 - std::pow(beta, static_cast<double>(updates))));
  }

  SLUICE_HOST_DEVICE void Add(T gradient, T& mean, T& variance) const {
    mean = beta1 * mean + rest1 * gradient;
    variance = beta2 * variance + rest2 * gradient * gradient;
  }
  // Returns the square root of the corrected variance, plus epsilon.
  SLUICE_HOST_DEVICE T Deviation(T variance) const { return SquareRoot(variance * correction2) + epsilon; }
};

template <typename T>
struct Adam {
  static constexpr auto kSlots = Moments<T>::kSlots;
  Gradient<T> gradient;
  Moments<T> moments;
  T rate;

  explicit Adam(const Update& u) : gradient(u), moments(u), rate(static_cast<T>(u.rate)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& mean, T& variance) const {
    moments.Add(gradient.Decayed(raw, weight), mean, variance);
    return weight - rate * (mean * moments.correction1) / moments.Deviation(variance);
  }
};

template <typename T>
struct AdamW {
  static constexpr auto kSlots = Moments<T>::kSlots;
  Gradient<T> gradient;
  Moments<T> moments;
  T rate;

  explicit AdamW(const Update& u) : gradient(u), moments(u), rate(static_cast<T>(u.rate)) {}
  // Returns the step before it is multiplied by the rate.
  SLUICE_HOST_DEVICE T Direction(T weight, T mean, T variance) const {
    return mean * moments.correction1 / moments.Deviation(variance) + gradient.decay * weight;
  }
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& mean, T& variance) const {
    moments.Add(gradient.Clipped(raw), mean, variance);
    return weight - rate * Direction(weight, mean, variance);
  }
};

template <typename T>
struct Lamb {
  static constexpr auto kSlots = Moments<T>::kSlots;
  static constexpr bool kNeedsNorms = true;
  AdamW<T> adamw;
  T rate;  // the rate times the ratio of the norms, once these are known

  explicit Lamb(const Update& u)
      : adamw(u), rate(static_cast<T>(double{adamw.rate} * Ratio(u.config, u.step.norms))) {}
  static double Ratio(const OptimizerConfig& config, const Optimizer::Norms& norms) {
    double weight = std::max(std::sqrt(norms.weight), config.lower_bound);
    if (config.upper_bound > 0) weight = std::min(weight, config.upper_bound);
    const double direction = std::sqrt(norms.direction);
    return weight == 0 || direction == 0 ? 1 : weight / direction;
  }

  SLUICE_HOST_DEVICE T Measure(T weight, T raw, T& mean, T& variance) const {
    adamw.moments.Add(adamw.gradient.Clipped(raw), mean, variance);
    return adamw.Direction(weight, mean, variance);
  }
  SLUICE_HOST_DEVICE T Step(T weight, T mean, T variance) const {
    return weight - rate * adamw.Direction(weight, mean, variance);
  }
};

}  // namespace sluice::formulas
