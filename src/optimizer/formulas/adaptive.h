// The formulas of adagrad, rmsprop and ftrl, which have a learning rate for each element, from the squares of
// its gradients. include/sluice/optimizer.h has them in mathematical notation; gradient.h says what a formula
// is.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "optimizer/formulas/gradient.h"

namespace sluice::formulas {

template <typename T>
struct AdaGrad {
  static constexpr std::array<std::string_view, 1> kSlots = {"history"};
  Gradient<T> gradient;
  T rate, epsilon;

  explicit AdaGrad(const Update& u)
      : gradient(u), rate(static_cast<T>(u.rate)), epsilon(static_cast<T>(u.config.epsilon)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& history) const {
    const T g = gradient.Decayed(raw, weight);
    history += g * g;
    return weight - rate * g / (SquareRoot(history) + epsilon);
  }
};

// rmsprop without momentum, divided by the root of the mean square.
template <typename T>
struct RmsProp {
  static constexpr std::array<std::string_view, 1> kSlots = {"square"};
  Gradient<T> gradient;
  T rate, rho, rest, epsilon;  // rest: 1 - rho, subtracted in double

  explicit RmsProp(const Update& u)
      : gradient(u),
        rate(static_cast<T>(u.rate)),
        rho(static_cast<T>(u.config.rho)),
        rest(static_cast<T>(1 - u.config.rho)),
        epsilon(static_cast<T>(u.config.epsilon)) {}
  // Returns what is added to the weight, before momentum.
  SLUICE_HOST_DEVICE T Change(T weight, T raw, T& square) const {
    const T g = gradient.Decayed(raw, weight);
    square = rho * square + rest * g * g;
    return -rate * g / (SquareRoot(square) + epsilon);
  }
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& square) const { return weight + Change(weight, raw, square); }
};

// rmsprop without momentum, divided by the root of the variance.
template <typename T>
struct RmsPropCentered {
  static constexpr std::array<std::string_view, 2> kSlots = {"square", "mean"};
  RmsProp<T> plain;

  explicit RmsPropCentered(const Update& u) : plain(u) {}
  SLUICE_HOST_DEVICE T Change(T weight, T raw, T& square, T& mean) const {
    const T g = plain.gradient.Decayed(raw, weight);
    square = plain.rho * square + plain.rest * g * g;
    mean = plain.rho * mean + plain.rest * g;
    const T variance = square - mean * mean;  // rounding may make it negative
    return -plain.rate * g / SquareRoot((variance > 0 ? variance : 0) + plain.epsilon);
  }
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& square, T& mean) const {
    return weight + Change(weight, raw, square, mean);
  }
};

template <typename T>
struct RmsPropMomentum {
  static constexpr std::array<std::string_view, 2> kSlots = {"square", "momentum"};
  RmsProp<T> plain;
  T momentum;

  explicit RmsPropMomentum(const Update& u) : plain(u), momentum(static_cast<T>(u.config.momentum)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& square, T& velocity) const {
    velocity = momentum * velocity + plain.Change(weight, raw, square);
    return weight + velocity;
  }
};

template <typename T>
struct RmsPropCenteredMomentum {
  static constexpr std::array<std::string_view, 3> kSlots = {"square", "mean", "momentum"};
  RmsPropCentered<T> centered;
  T momentum;

  explicit RmsPropCenteredMomentum(const Update& u)
      : centered(u), momentum(static_cast<T>(u.config.momentum)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& square, T& mean, T& velocity) const {
    velocity = momentum * velocity + centered.Change(weight, raw, square, mean);
    return weight + velocity;
  }
};

// The weight follows from z and n. Where it is another, because it was written or the rate has changed, z
// first becomes the nearest value that stands for it. A relative difference up to `slack` is the rounding of
// the weight's type.
template <typename T>
struct Ftrl {
  static constexpr std::array<std::string_view, 2> kSlots = {"z", "n"};
  Gradient<T> gradient;
  T rate, lambda1, beta, inverse_rate, slack;

  explicit Ftrl(const Update& u)
      : gradient(u),
        rate(static_cast<T>(u.rate)),
        lambda1(static_cast<T>(u.config.lambda1)),
        beta(static_cast<T>(u.config.beta)),
        inverse_rate(1 / rate),
        slack(u.step.weight_bits == 0 ? 4 * std::numeric_limits<T>::epsilon()
                                      : static_cast<T>(std::ldexp(1.0, -u.step.weight_bits))) {}
  // A rate of 0 changes neither the weight nor the states.
  SLUICE_HOST_DEVICE bool ChangesNothing() const { return rate == 0; }
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& z, T& squares) const {
    if (ChangesNothing()) return weight;
    const T g = gradient.Clipped(raw), square = g * g;
    const T before = SquareRoot(squares), after = SquareRoot(squares + square);
    // `growth` is sqrt(n + g^2) - sqrt(n), computed without cancellation.
    const T growth = after > 0 ? square / (after + before) : 0;
    z = StandingFor(weight, z, Curvature(before)) + (g - growth * inverse_rate * weight);
    squares += square;
    const T curvature = Curvature(after);
    return curvature == 0 ? weight : (Bounded(z) - z) / curvature;  // 0: beta and all gradients so far are 0
  }

 private:
  // The weight of z and n is (Bounded(z) - z) / Curvature(sqrt(n)).
  SLUICE_HOST_DEVICE T Curvature(T root) const { return (beta + root) * inverse_rate + gradient.decay; }
  SLUICE_HOST_DEVICE T Bounded(T z) const {
    const T above = z > -lambda1 ? z : -lambda1;
    return above < lambda1 ? above : lambda1;
  }
  // Returns z, or the nearest value to it that stands for `weight`. To divide would take longer.
  SLUICE_HOST_DEVICE T StandingFor(T weight, T z, T curvature) const {
    const T bounded = Bounded(z), beyond = bounded - z, pull = weight * curvature;
    const T bound = weight == 0 ? bounded : (weight > 0 ? -lambda1 : lambda1);
    return Magnitude(pull - beyond) <= slack * Magnitude(beyond) ? z : bound - pull;
  }
  SLUICE_HOST_DEVICE static T Magnitude(T x) { return x < 0 ? -x : x; }
};

}  // namespace sluice::formulas
