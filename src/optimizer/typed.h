// The factors and the base class that the optimisers share, and the functions that
// make them. Internal to optimizer/.
#pragma once

#include "sluice/optimizer.h"

namespace sluice {

// The numbers of a configuration that one call needs, in the type that computes.
template <typename T>
struct Factors {
  T scale, clip, decay, rate;

  // The gradient after scaling and clipping: G of include/sluice/optimizer.h.
  T Clipped(T raw) const {
    const T g = raw * scale;
    return clip > 0 ? (g > clip ? clip : (g < -clip ? -clip : g)) : g;
  }
  // The same with weight decay added: g of include/sluice/optimizer.h.
  T Gradient(T raw, T weight) const { return Clipped(raw) + decay * weight; }
};

template <typename T>
Factors<T> FactorsOf(const Optimizer& optimizer, const Optimizer::Step& step) {
  const OptimizerConfig& config = optimizer.config();
  const int64_t t = (step.num_update - 1) / step.updates_per_step + 1;
  return {static_cast<T>(step.grad_scale * config.rescale_grad), static_cast<T>(config.clip_gradient),
          static_cast<T>(config.wd * step.wd_mult), static_cast<T>(optimizer.LearningRate(t) * step.lr_mult)};
}

// Implements both precisions of Update by a template method Run<T> of the derived class.
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

using Slots = std::span<const std::string_view>;

std::unique_ptr<const Optimizer> MakeSgd(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeNag(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeSignum(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeAccumulate(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeAdam(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeAdamW(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeLamb(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeAdaGrad(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeRmsProp(const OptimizerConfig& config);
std::unique_ptr<const Optimizer> MakeFtrl(const OptimizerConfig& config);

}  // namespace sluice
