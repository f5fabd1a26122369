// The optimisers sgd, nag, signum and accumulate. include/sluice/optimizer.h has the formulas, slot_names the
// states; sgd and signum have none without momentum. Each loop is built for float and double and for several
// instruction sets, all with the same results. Objects are immutable; servers and stores call them on any
// thread, on disjoint elements at the same time (kvstore/update).
#include "base/simd.h"
#include "optimizer/typed.h"

namespace sluice {
namespace {

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
struct SignFactors {
  T momentum, rest;  // rest: 1 - momentum
  T decay;           // decoupled weight decay: wd_lh * wd_mult
};
template <typename T>
inline T Sign(T x) {
  return static_cast<T>(x > 0) - static_cast<T>(x < 0);
}
template <typename T>
inline void SignLoop(Factors<T> f, T decay, const T* w, T* out, const T* g, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = w[i] - f.rate * (Sign(f.Gradient(g[i], w[i])) + decay * w[i]);
}
template <typename T>
inline void SignumLoop(Factors<T> f, SignFactors<T> s, const T* w, T* out, const T* g, T* average, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    average[i] = s.momentum * average[i] + s.rest * f.Gradient(g[i], w[i]);
    out[i] = w[i] - f.rate * (Sign(average[i]) + s.decay * w[i]);
  }
}
template <typename T>
inline void AccumulateLoop(T scale, const T* w, T* out, const T* g, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = w[i] + scale * g[i];
}

// The loops as functions for each type, built for several instruction sets.
#define SLUICE_LOOPS(T)                                                                                   \
  SLUICE_SIMD void Plain(Factors<T> f, const T* w, T* out, const T* g, size_t n) {                        \
    PlainLoop(f, w, out, g, n);                                                                           \
  }                                                                                                       \
  SLUICE_SIMD void Momentum(Factors<T> f, T mu, const T* w, T* out, const T* g, T* v, size_t n) {         \
    MomentumLoop(f, mu, w, out, g, v, n);                                                                 \
  }                                                                                                       \
  SLUICE_SIMD void Nesterov(Factors<T> f, T mu, const T* w, T* out, const T* g, T* v, size_t n) {         \
    NesterovLoop(f, mu, w, out, g, v, n);                                                                 \
  }                                                                                                       \
  SLUICE_SIMD void SignStep(Factors<T> f, T decay, const T* w, T* out, const T* g, size_t n) {            \
    SignLoop(f, decay, w, out, g, n);                                                                     \
  }                                                                                                       \
  SLUICE_SIMD void SignumStep(Factors<T> f, SignFactors<T> s, const T* w, T* out, const T* g, T* average, \
                              size_t n) {                                                                 \
    SignumLoop(f, s, w, out, g, average, n);                                                              \
  }                                                                                                       \
  SLUICE_SIMD void Accumulate(T scale, const T* w, T* out, const T* g, size_t n) {                        \
    AccumulateLoop(scale, w, out, g, n);                                                                  \
  }
SLUICE_LOOPS(float)
SLUICE_LOOPS(double)
#undef SLUICE_LOOPS

constexpr std::string_view kMomentumSlot[] = {"momentum"};
constexpr std::string_view kAverageSlot[] = {"average"};

class Sgd final : public Typed<Sgd> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return config().momentum == 0 ? Slots() : kMomentumSlot; }
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
  Slots slot_names() const override { return kMomentumSlot; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    Nesterov(FactorsOf<T>(*this, step), static_cast<T>(config().momentum), w, out, g, slots[0], n);
  }
};

class Signum final : public Typed<Signum> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return config().momentum == 0 ? Slots() : kAverageSlot; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    const SignFactors<T> sign{static_cast<T>(config().momentum), static_cast<T>(1 - config().momentum),
                              static_cast<T>(config().wd_lh * step.wd_mult)};
    if (config().momentum == 0) return SignStep(factors, sign.decay, w, out, g, n);
    SignumStep(factors, sign, w, out, g, slots[0], n);
  }
};

class AccumulateOptimizer final : public Typed<AccumulateOptimizer> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return {}; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const*, size_t n) const {
    Accumulate(static_cast<T>(step.grad_scale * config().rescale_grad), w, out, g, n);
  }
};

}  // namespace

std::unique_ptr<const Optimizer> MakeSgd(const OptimizerConfig& config) {
  return std::make_unique<Sgd>(config);
}
std::unique_ptr<const Optimizer> MakeNag(const OptimizerConfig& config) {
  return std::make_unique<Nag>(config);
}
std::unique_ptr<const Optimizer> MakeSignum(const OptimizerConfig& config) {
  return std::make_unique<Signum>(config);
}
std::unique_ptr<const Optimizer> MakeAccumulate(const OptimizerConfig& config) {
  return std::make_unique<AccumulateOptimizer>(config);
}

}  // namespace sluice
