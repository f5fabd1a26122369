// The optimisers adam, adamw and lamb, which step by bias-corrected moments of the gradient.
// include/sluice/optimizer.h has the formulas. The states are mean and variance (kMoments). Each
// loop is built for float and double and for several instruction sets, all with the same
// results. Objects are immutable; servers and stores call them on any thread, on disjoint
// elements at the same time (kvstore/update).
#include <algorithm>
#include <cmath>

#include "base/simd.h"
#include "optimizer/typed.h"

namespace sluice {
namespace {

template <typename T>
struct AdamFactors {
  T beta1, beta2;
  T rest1, rest2;  // 1 - beta, subtracted in double: in float only five digits of 1 - 0.999 are right
  T correction1, correction2, epsilon;

  T Direction(T mean, T variance) const {
    return mean * correction1 / (std::sqrt(variance * correction2) + epsilon);
  }
};

template <typename T>
AdamFactors<T> AdamFactorsOf(const OptimizerConfig& config, const Optimizer::Step& step) {
  const auto t = static_cast<double>(step.num_update);
  return {static_cast<T>(config.beta1),
          static_cast<T>(config.beta2),
          static_cast<T>(1 - config.beta1),
          static_cast<T>(1 - config.beta2),
          static_cast<T>(1 / (1 - std::pow(config.beta1, t))),
          static_cast<T>(1 / (1 - std::pow(config.beta2, t))),
          static_cast<T>(config.epsilon)};
}

template <typename T>
inline void MomentsLoop(Factors<T> f, AdamFactors<T> a, const T* g, T* m, T* u, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Clipped(g[i]);
    m[i] = a.beta1 * m[i] + a.rest1 * gradient;
    u[i] = a.beta2 * u[i] + a.rest2 * gradient * gradient;
  }
}
template <typename T>
inline void AdamLoop(Factors<T> f, AdamFactors<T> a, const T* w, T* out, const T* g, T* m, T* u, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Gradient(g[i], w[i]);
    m[i] = a.beta1 * m[i] + a.rest1 * gradient;
    u[i] = a.beta2 * u[i] + a.rest2 * gradient * gradient;
    out[i] = w[i] - f.rate * (m[i] * a.correction1) / (std::sqrt(u[i] * a.correction2) + a.epsilon);
  }
}
// Steps by moments that were updated before: for adamw, and for lamb, where `rate` includes lamb's ratio.
template <typename T>
inline void DecoupledLoop(T rate, T decay, AdamFactors<T> a, const T* w, T* out, const T* m, const T* u,
                          size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = w[i] - rate * (a.Direction(m[i], u[i]) + decay * w[i]);
}

constexpr size_t kLanes = 8;  // number of partial sums: a fixed order of additions that vectorises

struct Squares {
  double weight[kLanes] = {}, direction[kLanes] = {};
};
template <typename T>
inline void SquaresLoop(T decay, AdamFactors<T> a, const T* w, const T* m, const T* u, size_t n,
                        Squares* sums) {
  size_t i = 0;
  const auto add = [&](size_t lane, size_t at) {
    const double weight = w[at], direction = a.Direction(m[at], u[at]) + decay * w[at];
    sums->weight[lane] += weight * weight;
    sums->direction[lane] += direction * direction;
  };
  for (; i + kLanes <= n; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (size_t lane = 0; i + lane < n; ++lane) add(lane, i + lane);
}

// The loops as functions for each type, built for several instruction sets.
#define SLUICE_LOOPS(T)                                                                                     \
  SLUICE_SIMD void Moments(Factors<T> f, AdamFactors<T> a, const T* g, T* m, T* u, size_t n) {              \
    MomentsLoop(f, a, g, m, u, n);                                                                          \
  }                                                                                                         \
  SLUICE_SIMD void AdamStep(Factors<T> f, AdamFactors<T> a, const T* w, T* out, const T* g, T* m, T* u,     \
                            size_t n) {                                                                     \
    AdamLoop(f, a, w, out, g, m, u, n);                                                                     \
  }                                                                                                         \
  SLUICE_SIMD void Decoupled(T rate, T decay, AdamFactors<T> a, const T* w, T* out, const T* m, const T* u, \
                             size_t n) {                                                                    \
    DecoupledLoop(rate, decay, a, w, out, m, u, n);                                                         \
  }                                                                                                         \
  SLUICE_SIMD void SumSquares(T decay, AdamFactors<T> a, const T* w, const T* m, const T* u, size_t n,      \
                              Squares* sums) {                                                              \
    SquaresLoop(decay, a, w, m, u, n, sums);                                                                \
  }
SLUICE_LOOPS(float)
SLUICE_LOOPS(double)
#undef SLUICE_LOOPS

double SumOf(const double (&lanes)[kLanes]) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

constexpr std::string_view kMoments[] = {"mean", "variance"};

class AdamOptimizer final : public Typed<AdamOptimizer> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return kMoments; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    AdamStep(FactorsOf<T>(*this, step), AdamFactorsOf<T>(config(), step), w, out, g, slots[0], slots[1], n);
  }
};

class AdamW final : public Typed<AdamW> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return kMoments; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    const auto adam = AdamFactorsOf<T>(config(), step);
    Moments(factors, adam, g, slots[0], slots[1], n);
    Decoupled(factors.rate, factors.decay, adam, w, out, slots[0], slots[1], n);
  }
};

class Lamb final : public Typed<Lamb> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return kMoments; }
  bool needs_norms() const override { return true; }
  void Measure(const Step& step, const float* w, const float* g, float* const* slots, size_t n,
               Norms* norms) const override {
    MeasureAs<float>(step, w, g, slots, n, norms);
  }
  void Measure(const Step& step, const double* w, const double* g, double* const* slots, size_t n,
               Norms* norms) const override {
    MeasureAs<double>(step, w, g, slots, n, norms);
  }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T*, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    const auto rate = static_cast<T>(double{factors.rate} * Ratio(step.norms));
    Decoupled(rate, factors.decay, AdamFactorsOf<T>(config(), step), w, out, slots[0], slots[1], n);
  }

 private:
  template <typename T>
  void MeasureAs(const Step& step, const T* w, const T* g, T* const* slots, size_t n, Norms* norms) const {
    const auto factors = FactorsOf<T>(*this, step);
    const auto adam = AdamFactorsOf<T>(config(), step);
    Moments(factors, adam, g, slots[0], slots[1], n);
    for (size_t first = 0; first < n; first += kMeasured) {
      Squares sums;
      SumSquares(factors.decay, adam, w + first, slots[0] + first, slots[1] + first,
                 std::min(kMeasured, n - first), &sums);
      norms->weight += SumOf(sums.weight);
      norms->direction += SumOf(sums.direction);
    }
  }
  double Ratio(const Norms& norms) const {
    double weight = std::max(std::sqrt(norms.weight), config().lower_bound);
    if (config().upper_bound > 0) weight = std::min(weight, config().upper_bound);
    const double direction = std::sqrt(norms.direction);
    return weight == 0 || direction == 0 ? 1 : weight / direction;
  }
};

}  // namespace

std::unique_ptr<const Optimizer> MakeAdam(const OptimizerConfig& config) {
  return std::make_unique<AdamOptimizer>(config);
}
std::unique_ptr<const Optimizer> MakeAdamW(const OptimizerConfig& config) {
  return std::make_unique<AdamW>(config);
}
std::unique_ptr<const Optimizer> MakeLamb(const OptimizerConfig& config) {
  return std::make_unique<Lamb>(config);
}

}  // namespace sluice
