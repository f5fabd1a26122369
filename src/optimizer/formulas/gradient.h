// What the formulas of all optimisers begin with: the gradient after scaling, clipping and weight decay.
//
// A formula is a struct template over the type that computes (float or double). Its members are the factors
// of one update, which the constructor computes on the host, in double where rounding matters, before they
// are rounded to T. Its function Step computes one element: it returns the new weight from the old one and
// the summed gradient, and changes the element's states. kSlots names the states in the order of Step's
// parameters. A formula with norms has kNeedsNorms and two functions: Measure, for all elements first,
// updates the states and returns the element of the direction whose norm is needed; Step then does not take
// the gradient. Where a whole update may change nothing, ChangesNothing tells a loop so before it begins.
//
// Any loop over elements may call these functions: registry.cc has the host's, and device code may have its
// own. All loops have the same results if their compiler contracts no products and sums to fused operations
// (-ffp-contract=off, nvcc -fmad=false).
#pragma once

#include <cmath>

#include "base/host_device.h"
#include "sluice/optimizer.h"

namespace sluice::formulas {

// What the factors of one update are computed from.
struct Update {
  const OptimizerConfig& config;  // every field is set
  const Optimizer::Step& step;
  double rate;  // the schedule's rate times lr_mult

  double scale() const { return step.grad_scale * config.rescale_grad; }
};

SLUICE_HOST_DEVICE inline float SquareRoot(float x) {
  return ::sqrtf(x);
}
SLUICE_HOST_DEVICE inline double SquareRoot(double x) {
  return ::sqrt(x);
}

template <typename T>
struct Gradient {
  T scale, clip, decay;

  explicit Gradient(const Update& u)
      : scale(static_cast<T>(u.scale())),
        clip(static_cast<T>(u.config.clip_gradient)),
        decay(static_cast<T>(u.config.wd * u.step.wd_mult)) {}

  // Returns the gradient after scaling and clipping: G of include/sluice/optimizer.h.
  SLUICE_HOST_DEVICE T Clipped(T raw) const {
    const T g = raw * scale;
    return clip > 0 ? (g > clip ? clip : (g < -clip ? -clip : g)) : g;
  }
  // Returns the same with weight decay added: g of include/sluice/optimizer.h.
  SLUICE_HOST_DEVICE T Decayed(T raw, T weight) const { return Clipped(raw) + decay * weight; }
};

}  // namespace sluice::formulas
