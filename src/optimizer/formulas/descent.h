// The formulas of sgd, nag, delayed_nag, signum and accumulate. include/sluice/optimizer.h has them in
// mathematical notation; gradient.h says what a formula is.
#pragma once

#include <array>
#include <string_view>

#include "optimizer/formulas/gradient.h"

namespace sluice::formulas {

// sgd without momentum.
template <typename T>
struct Sgd {
  static constexpr std::array<std::string_view, 0> kSlots = {};
  Gradient<T> gradient;
  T rate;

  explicit Sgd(const Update& u) : gradient(u), rate(static_cast<T>(u.rate)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw) const { return weight - rate * gradient.Decayed(raw, weight); }
};

template <typename T>
struct SgdMomentum {
  static constexpr std::array<std::string_view, 1> kSlots = {"momentum"};
  Gradient<T> gradient;
  T rate, momentum;

  explicit SgdMomentum(const Update& u)
      : gradient(u), rate(static_cast<T>(u.rate)), momentum(static_cast<T>(u.config.momentum)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& velocity) const {
    velocity = momentum * velocity - rate * gradient.Decayed(raw, weight);
    return weight + velocity;
  }
};

template <typename T>
struct Nag {
  static constexpr std::array<std::string_view, 1> kSlots = {"momentum"};
  Gradient<T> gradient;
  T rate, momentum;

  explicit Nag(const Update& u)
      : gradient(u), rate(static_cast<T>(u.rate)), momentum(static_cast<T>(u.config.momentum)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& velocity) const {
    const T step = rate * gradient.Decayed(raw, weight);
    velocity = momentum * velocity - step;
    return weight + momentum * velocity - step;
  }
};

// The momentum moves once in a step of all workers, by what all their updates have moved the weight.
template <typename T>
struct DelayedNag {
  static constexpr std::array<std::string_view, 2> kSlots = {"momentum", "gathered"};
  Gradient<T> gradient;
  T rate, momentum;
  T is_last;  // 1 in a step's last update, else 0

  explicit DelayedNag(const Update& u)
      : gradient(u),
        rate(static_cast<T>(u.rate)),
        momentum(static_cast<T>(u.config.momentum)),
        is_last(static_cast<T>(u.step.num_update % u.step.updates_per_step == 0)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& velocity, T& gathered) const {
    const T step = rate * gradient.Decayed(raw, weight), all = gathered + step;
    const T moved = momentum * velocity - all;
    velocity = is_last > 0 ? moved : velocity;
    gathered = is_last > 0 ? T(0) : all;
    return weight - step + (is_last > 0 ? momentum * moved : T(0));
  }
};

// signum without momentum, which is signSGD.
template <typename T>
struct SignSgd {
  static constexpr std::array<std::string_view, 0> kSlots = {};
  Gradient<T> gradient;
  T rate, decay;  // decay: the decoupled weight decay

  explicit SignSgd(const Update& u)
      : gradient(u), rate(static_cast<T>(u.rate)), decay(static_cast<T>(u.config.wd_lh * u.step.wd_mult)) {}
  SLUICE_HOST_DEVICE static T Sign(T x) { return static_cast<T>(x > 0) - static_cast<T>(x < 0); }
  SLUICE_HOST_DEVICE T StepBySign(T weight, T x) const { return weight - rate * (Sign(x) + decay * weight); }
  SLUICE_HOST_DEVICE T Step(T weight, T raw) const {
    return StepBySign(weight, gradient.Decayed(raw, weight));
  }
};

template <typename T>
struct Signum {
  static constexpr std::array<std::string_view, 1> kSlots = {"average"};
  SignSgd<T> sign;
  T momentum, rest;  // rest: 1 - momentum

  explicit Signum(const Update& u)
      : sign(u), momentum(static_cast<T>(u.config.momentum)), rest(static_cast<T>(1 - u.config.momentum)) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw, T& average) const {
    average = momentum * average + rest * sign.gradient.Decayed(raw, weight);
    return sign.StepBySign(weight, average);
  }
};

template <typename T>
struct Accumulate {
  static constexpr std::array<std::string_view, 0> kSlots = {};
  T scale;

  explicit Accumulate(const Update& u) : scale(static_cast<T>(u.scale())) {}
  SLUICE_HOST_DEVICE T Step(T weight, T raw) const { return weight + scale * raw; }
};

}  // namespace sluice::formulas
