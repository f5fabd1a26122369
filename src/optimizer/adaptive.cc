// The optimisers adagrad, rmsprop and ftrl, which have a learning rate for each element, from the squares of
// its gradients. include/sluice/optimizer.h has the formulas, slot_names the states. Each loop is built for
// float and double and for several instruction sets, all with the same results. Objects are immutable;
// servers and stores call them on any thread, on disjoint elements at the same time (kvstore/update).
#include <cmath>

#include "base/simd.h"
#include "optimizer/typed.h"

namespace sluice {
namespace {

template <typename T>
inline void AdaGradLoop(Factors<T> f, T epsilon, const T* w, T* out, const T* g, T* history, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Gradient(g[i], w[i]);
    history[i] += gradient * gradient;
    out[i] = w[i] - f.rate * gradient / (std::sqrt(history[i]) + epsilon);
  }
}

template <typename T>
struct RmsFactors {
  T rho, rest;  // rest: 1 - rho, subtracted in double
  T momentum, epsilon;
};
// `v` is null without momentum.
template <typename T>
inline void RmsPropLoop(Factors<T> f, RmsFactors<T> r, const T* w, T* out, const T* g, T* square, T* v,
                        size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Gradient(g[i], w[i]);
    square[i] = r.rho * square[i] + r.rest * gradient * gradient;
    T step = -f.rate * gradient / (std::sqrt(square[i]) + r.epsilon);
    if (v != nullptr) step = v[i] = r.momentum * v[i] + step;
    out[i] = w[i] + step;
  }
}
template <typename T>
inline void CenteredLoop(Factors<T> f, RmsFactors<T> r, const T* w, T* out, const T* g, T* square, T* mean,
                         T* v, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Gradient(g[i], w[i]);
    square[i] = r.rho * square[i] + r.rest * gradient * gradient;
    mean[i] = r.rho * mean[i] + r.rest * gradient;
    const T variance = square[i] - mean[i] * mean[i];  // rounding may make it negative
    T step = -f.rate * gradient / std::sqrt((variance > 0 ? variance : 0) + r.epsilon);
    if (v != nullptr) step = v[i] = r.momentum * v[i] + step;
    out[i] = w[i] + step;
  }
}

template <typename T>
struct FtrlFactors {
  T lambda1, beta, inverse_rate;
};
template <typename T>
inline void FtrlLoop(Factors<T> f, FtrlFactors<T> k, const T* w, T* out, const T* g, T* z, T* squares,
                     size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const T gradient = f.Clipped(g[i]), square = gradient * gradient;
    const T before = std::sqrt(squares[i]), after = std::sqrt(squares[i] + square);
    // `growth` is sqrt(n + g^2) - sqrt(n), computed without cancellation.
    const T growth = after > 0 ? square / (after + before) : 0;
    z[i] += gradient - growth * k.inverse_rate * w[i];
    squares[i] += square;
    const T within = 0 * z[i];  // NaN stays NaN
    const T beyond = z[i] > k.lambda1 ? k.lambda1 - z[i] : (z[i] < -k.lambda1 ? -k.lambda1 - z[i] : within);
    const T curvature = (k.beta + after) * k.inverse_rate + f.decay;
    out[i] = beyond == 0 ? 0 : beyond / curvature;
  }
}

// The loops as functions for each type, built for several instruction sets.
#define SLUICE_LOOPS(T)                                                                                   \
  SLUICE_SIMD void AdaGradStep(Factors<T> f, T epsilon, const T* w, T* out, const T* g, T* h, size_t n) { \
    AdaGradLoop(f, epsilon, w, out, g, h, n);                                                             \
  }                                                                                                       \
  SLUICE_SIMD void RmsPropStep(Factors<T> f, RmsFactors<T> r, const T* w, T* out, const T* g, T* square,  \
                               T* v, size_t n) {                                                          \
    if (v == nullptr) return RmsPropLoop<T>(f, r, w, out, g, square, nullptr, n);                         \
    RmsPropLoop(f, r, w, out, g, square, v, n);                                                           \
  }                                                                                                       \
  SLUICE_SIMD void CenteredStep(Factors<T> f, RmsFactors<T> r, const T* w, T* out, const T* g, T* square, \
                                T* mean, T* v, size_t n) {                                                \
    if (v == nullptr) return CenteredLoop<T>(f, r, w, out, g, square, mean, nullptr, n);                  \
    CenteredLoop(f, r, w, out, g, square, mean, v, n);                                                    \
  }                                                                                                       \
  SLUICE_SIMD void FtrlStep(Factors<T> f, FtrlFactors<T> k, const T* w, T* out, const T* g, T* z,         \
                            T* squares, size_t n) {                                                       \
    FtrlLoop(f, k, w, out, g, z, squares, n);                                                             \
  }
SLUICE_LOOPS(float)
SLUICE_LOOPS(double)
#undef SLUICE_LOOPS

constexpr std::string_view kAdaGradSlot[] = {"history"};
constexpr std::string_view kRmsPropSlots[] = {"square", "momentum"};
constexpr std::string_view kCenteredSlots[] = {"square", "mean", "momentum"};
constexpr std::string_view kFtrlSlots[] = {"z", "n"};

class AdaGrad final : public Typed<AdaGrad> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return kAdaGradSlot; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    AdaGradStep(FactorsOf<T>(*this, step), static_cast<T>(config().epsilon), w, out, g, slots[0], n);
  }
};

class RmsProp final : public Typed<RmsProp> {
 public:
  using Typed::Typed;
  Slots slot_names() const override {
    const Slots all = config().centered ? Slots(kCenteredSlots) : Slots(kRmsPropSlots);
    return config().momentum == 0 ? all.first(all.size() - 1) : all;
  }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    const RmsFactors<T> rms{static_cast<T>(config().rho), static_cast<T>(1 - config().rho),
                            static_cast<T>(config().momentum), static_cast<T>(config().epsilon)};
    T* momentum = config().momentum == 0 ? nullptr : slots[num_slots() - 1];
    if (config().centered) return CenteredStep(factors, rms, w, out, g, slots[0], slots[1], momentum, n);
    RmsPropStep(factors, rms, w, out, g, slots[0], momentum, n);
  }
};

class Ftrl final : public Typed<Ftrl> {
 public:
  using Typed::Typed;
  Slots slot_names() const override { return kFtrlSlots; }
  template <typename T>
  void Run(const Step& step, const T* w, T* out, const T* g, T* const* slots, size_t n) const {
    const auto factors = FactorsOf<T>(*this, step);
    if (factors.rate == 0) {
      for (size_t i = 0; i < n; ++i) out[i] = w[i];
      return;
    }
    const FtrlFactors<T> ftrl{static_cast<T>(config().lambda1), static_cast<T>(config().beta),
                              1 / factors.rate};
    FtrlStep(factors, ftrl, w, out, g, slots[0], slots[1], n);
  }
};

}  // namespace

std::unique_ptr<const Optimizer> MakeAdaGrad(const OptimizerConfig& config) {
  return std::make_unique<AdaGrad>(config);
}
std::unique_ptr<const Optimizer> MakeRmsProp(const OptimizerConfig& config) {
  return std::make_unique<RmsProp>(config);
}
std::unique_ptr<const Optimizer> MakeFtrl(const OptimizerConfig& config) {
  return std::make_unique<Ftrl>(config);
}

}  // namespace sluice
