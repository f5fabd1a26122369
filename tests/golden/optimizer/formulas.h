// The optimisers as published, in float64, one element at a time: what ours are compared with.
#pragma once

#include <algorithm>
#include <cmath>

#include "sluice/optimizer.h"

namespace sluice::reference {

struct Element {
  double weight = 0;
  double first = 0;   // momentum; Adam's mean
  double second = 0;  // Adam's variance
};

// One update of one element at learning rate `rate`. `scale` is all that multiplies the gradient but
// rescale_grad.
inline void Update(const OptimizerConfig& c, double rate, int64_t t, double scale, double wd_mult,
                   double gradient, Element* e) {
  const double scaled = c.rescale_grad * scale * gradient;
  if (c.kind == OptimizerKind::kAccumulate) {
    e->weight += scaled;
    return;
  }
  double g = c.clip_gradient > 0 ? std::clamp(scaled, -c.clip_gradient, c.clip_gradient) : scaled;
  g += c.wd * wd_mult * e->weight;
  switch (c.kind) {
    case OptimizerKind::kSgd:  // Apache MXNet 1.9, sgd_mom_update
      e->first = c.momentum * e->first - rate * g;
      e->weight += e->first;
      break;
    case OptimizerKind::kNag: {  // Sutskever et al. 2013, (3) and (4), in the variable that is stored
      const double before = e->first;
      e->first = c.momentum * before - rate * g;
      e->weight += (1 + c.momentum) * e->first - c.momentum * before;
      break;
    }
    case OptimizerKind::kAdam: {  // Kingma, Ba 2015, algorithm 1
      e->first = c.beta1 * e->first + (1 - c.beta1) * g;
      e->second = c.beta2 * e->second + (1 - c.beta2) * g * g;
      const auto power = static_cast<double>(t);
      const double mean = e->first / (1 - std::pow(c.beta1, power));
      const double variance = e->second / (1 - std::pow(c.beta2, power));
      e->weight -= rate * mean / (std::sqrt(variance) + c.epsilon);
      break;
    }
    case OptimizerKind::kAccumulate:
      break;
  }
}

}  // namespace sluice::reference
