#include "sluice/optimizer.h"

#include <cmath>

#include "base/simd.h"
#include "base/strings.h"
#include "optimizer/schedule.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// What one call needs of a configuration, in the type that computes.
template <typename T>
struct Factors {
  T scale, clip, decay, rate;

  // The gradient as the formulas take it.
  inline T Gradient(T raw, T weight) const {
    T g = raw * scale;
    g = clip > 0 ? (g > clip ? clip : (g < -clip ? -clip : g)) : g;
    return g + decay * weight;
  }
};

template <typename T>
Factors<T> FactorsOf(const Optimizer& optimizer, const Optimizer::Step& step) {
  const OptimizerConfig& config = optimizer.config();
  const int64_t t = (step.num_update - 1) / step.updates_per_step + 1;
  return {static_cast<T>(step.grad_scale * config.rescale_grad), static_cast<T>(config.clip_gradient),
          static_cast<T>(config.wd * step.wd_mult), static_cast<T>(optimizer.LearningRate(t) * step.lr_mult)};
}

template <typename T>
inline void PlainLoop(Factors<T> f, const T* w, T* out, const T* g, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = w[i] - f.rate * f.Gradient(g[i], w[i]);
}
template <typename T>
inline void MomentumLoop(Factors<T> f, T momentum, const T* w, T* out, const T* g, T* v, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    v[i] = momentum * v[i] - f.rate * f.Gradient(g[i], w[i]);
    out[i] = w[i] + v[i];
  }
}
template <typename T>
inline void NesterovLoop(Factors<T> f, T momentum, const T* w, T* out, const T* g, T* v, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T step = f.rate * f.Gradient(g[i], w[i]);
    v[i] = momentum * v[i] - step;
    out[i] = w[i] + momentum * v[i] - step;
  }
}
template <typename T>
struct AdamFactors {
  T beta1, beta2;
  T rest1, rest2;  // 1 - beta: of the exact beta, or float would keep five digits of 1 - 0.999
  T correction1, correction2, epsilon;
};
template <typename T>
inline void AdamLoop(Factors<T> f, AdamFactors<T> a, const T* w, T* out, const T* g, T* m, T* u, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Gradient(g[i], w[i]);
    m[i] = a.beta1 * m[i] + a.rest1 * gradient;
    u[i] = a.beta2 * u[i] + a.rest2 * gradient * gradient;
    out[i] = w[i] - f.rate * (m[i] * a.correction1) / (std::sqrt(u[i] * a.correction2) + a.epsilon);
  }
}
template <typename T>
inline void AccumulateLoop(T scale, const T* w, T* out, const T* g, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = w[i] + scale * g[i];
}

// The loops, built for several instruction sets.
#define SLUICE_LOOPS(T)                                                                             \
  SLUICE_SIMD void Plain(Factors<T> f, const T* w, T* out, const T* g, size_t n) {                  \
    PlainLoop(f, w, out, g, n);                                                                     \
  }                                                                                                 \
  SLUICE_SIMD void Momentum(Factors<T> f, T mu, const T* w, T* out, const T* g, T* v, size_t n) {   \
    MomentumLoop(f, mu, w, out, g, v, n);                                                           \
  }                                                                                                 \
  SLUICE_SIMD void Nesterov(Factors<T> f, T mu, const T* w, T* out, const T* g, T* v, size_t n) {   \
    NesterovLoop(f, mu, w, out, g, v, n);                                                           \
  }                                                                                                 \
  SLUICE_SIMD void Adam(Factors<T> f, AdamFactors<T> a, const T* w, T* out, const T* g, T* m, T* u, \
                        size_t n) {                                                                 \
    AdamLoop(f, a, w, out, g, m, u, n);                                                             \
  }                                                                                                 \
  SLUICE_SIMD void Accumulate(T scale, const T* w, T* out, const T* g, size_t n) {                  \
    AccumulateLoop(scale, w, out, g, n);                                                            \
  }
SLUICE_LOOPS(float)
SLUICE_LOOPS(double)
#undef SLUICE_LOOPS

// The two precisions of an optimiser from one template method of its own.
template <typename Derived>
class Typed : public Optimizer {
 public:
  explicit Typed(const OptimizerConfig& config) : Optimizer(config) {}
  void Update(const Step& step, const float* w, float* out, const float* g, float* const* slots,
              size_t n) const override {
    static_cast<const Derived*>(this)->template Run<float>(step, w, out, g, slots, n);
  }
  void Update(const Step& step, const double* w, double* out, const double* g, double* const* slots,
              size_t n) const override {
    static_cast<const Derived*>(this)->template Run<double>(step, w, out, g, slots, n);
  }
};

constexpr std::string_view kMomentumSlot[] = {"momentum"};
constexpr std::string_view kAdamSlots[] = {"mean", "variance"};

class Sgd final : public Typed<Sgd> {
 public:
  using Typed::Typed;
  std::span<const std::string_view> slot_names() const override {
    return config().momentum == 0 ? std::span<const std::string_view>() : kMomentumSlot;
  }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    if (config().momentum == 0) return Plain(factors, w, out, g, n);
    Momentum(factors, static_cast<T>(config().momentum), w, out, g, slots[0], n);
  }
};

class Nag final : public Typed<Nag> {
 public:
  using Typed::Typed;
  std::span<const std::string_view> slot_names() const override { return kMomentumSlot; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    Nesterov(FactorsOf<T>(*this, step), static_cast<T>(config().momentum), w, out, g, slots[0], n);
  }
};

class AdamOptimizer final : public Typed<AdamOptimizer> {
 public:
  using Typed::Typed;
  std::span<const std::string_view> slot_names() const override { return kAdamSlots; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto t = static_cast<double>(step.num_update);
    const AdamFactors<T> adam{static_cast<T>(config().beta1),
                              static_cast<T>(config().beta2),
                              static_cast<T>(1 - config().beta1),
                              static_cast<T>(1 - config().beta2),
                              static_cast<T>(1 / (1 - std::pow(config().beta1, t))),
                              static_cast<T>(1 / (1 - std::pow(config().beta2, t))),
                              static_cast<T>(config().epsilon)};
    Adam(FactorsOf<T>(*this, step), adam, w, out, g, slots[0], slots[1], n);
  }
};

class AccumulateOptimizer final : public Typed<AccumulateOptimizer> {
 public:
  using Typed::Typed;
  std::span<const std::string_view> slot_names() const override { return {}; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const*, size_t n) const {
    Accumulate(static_cast<T>(step.grad_scale * config().rescale_grad), w, out, g, n);
  }
};

}  // namespace

double Optimizer::LearningRate(int64_t t) const {
  return LearningRateAt(config_.schedule, config_.learning_rate, t);
}

std::unique_ptr<const Optimizer> Optimizer::Create(const OptimizerConfig& config) {
  if (const std::string why = WhyInvalid(config); !why.empty()) throw Error(ErrorCode::kInvalidArgument, why);
  switch (config.kind) {
    case OptimizerKind::kSgd:
      return std::make_unique<Sgd>(config);
    case OptimizerKind::kNag:
      return std::make_unique<Nag>(config);
    case OptimizerKind::kAdam:
      return std::make_unique<AdamOptimizer>(config);
    case OptimizerKind::kAccumulate:
      return std::make_unique<AccumulateOptimizer>(config);
  }
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("optimiser kind ", static_cast<int>(config.kind), " is unknown"));
}

}  // namespace sluice
