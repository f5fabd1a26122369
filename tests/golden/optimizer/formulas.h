// The optimisers as published, in float64 and element by element. Tests compare the real ones with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "sluice/optimizer.h"

namespace sluice::reference {

struct Element {
  double weight = 0;
  double first = 0;   // momentum, mean of the gradients, or Ftrl's z
  double second = 0;  // mean or sum of the squared gradients, or a sum of gradients
  double third = 0;   // RMSProp's momentum
};

// The parameters of one update of a key.
struct Update {
  double rate = 0;
  int64_t t = 1;         // number of the update, from 1
  int64_t per_step = 1;  // updates in a step of all workers
  double scale = 1;      // factor of the gradient, besides rescale_grad
  double wd_mult = 1;
  double rounding = 1e-12;  // relative, of weights as they are stored
};

inline double Sign(double x) {
  return x > 0 ? 1 : (x < 0 ? -1 : 0);
}

// Kingma, Ba 2015, algorithm 1. Returns the step before it is multiplied by the rate.
inline double AdamStep(const OptimizerConfig& c, int64_t t, double g, Element* e) {
  e->first = c.beta1 * e->first + (1 - c.beta1) * g;
  e->second = c.beta2 * e->second + (1 - c.beta2) * g * g;
  const auto power = static_cast<double>(t);
  const double mean = e->first / (1 - std::pow(c.beta1, power));
  const double variance = e->second / (1 - std::pow(c.beta2, power));
  return mean / (std::sqrt(variance) + c.epsilon);
}

// Tieleman, Hinton 2012; centred as in Graves 2013, (38) to (41). The momentum includes the rate,
// as in MXNet.
inline double RmsPropStep(const OptimizerConfig& c, double rate, double g, Element* e) {
  e->second = c.rho * e->second + (1 - c.rho) * g * g;
  double divisor = std::sqrt(e->second) + c.epsilon;
  if (c.centered) {
    e->first = c.rho * e->first + (1 - c.rho) * g;
    divisor = std::sqrt(e->second - e->first * e->first + c.epsilon);
  }
  return e->third = c.momentum * e->third - rate * g / divisor;
}

// McMahan et al. 2013, algorithm 1, with `decay` as its lambda_2. It goes on from the weight that is there:
// where that is another than its z and n have, apart from `rounding`, z becomes one at which the algorithm's
// objective has its minimum there.
inline void FtrlUpdate(const OptimizerConfig& c, double rate, double decay, double rounding, double g,
                       Element* e) {
  const double curvature = (c.beta + std::sqrt(e->second)) / rate + decay;
  const double bounded = std::clamp(e->first, -c.lambda1, c.lambda1),
               stands = (bounded - e->first) / curvature;
  if (std::abs(e->weight - stands) > rounding * std::abs(stands))
    e->first = e->weight == 0 ? bounded : -e->weight * curvature - Sign(e->weight) * c.lambda1;
  const double sigma = (std::sqrt(e->second + g * g) - std::sqrt(e->second)) / rate;
  e->first += g - sigma * e->weight;
  e->second += g * g;
  e->weight = 0;
  if (std::abs(e->first) > c.lambda1) {
    e->weight = -(e->first - Sign(e->first) * c.lambda1) / ((c.beta + std::sqrt(e->second)) / rate + decay);
  }
}

// You et al. 2020, algorithm 2, over all elements of an array.
inline void LambUpdate(const OptimizerConfig& c, const Update& u, std::span<const double> clipped,
                       std::span<Element> array) {
  std::vector<double> steps;
  double weight = 0, direction = 0;
  for (size_t i = 0; i < array.size(); ++i) {
    steps.push_back(AdamStep(c, u.t, clipped[i], &array[i]) + c.wd * u.wd_mult * array[i].weight);
    weight += array[i].weight * array[i].weight;
    direction += steps[i] * steps[i];
  }
  double norm = std::max(std::sqrt(weight), c.lower_bound);
  if (c.upper_bound > 0) norm = std::min(norm, c.upper_bound);
  const double ratio = norm > 0 && direction > 0 ? norm / std::sqrt(direction) : 1;
  for (size_t i = 0; i < array.size(); ++i) array[i].weight -= u.rate * ratio * steps[i];
}

// Updates one element; every kind but kLamb and kAccumulate, which UpdateArray handles.
inline void UpdateElement(const OptimizerConfig& c, const Update& u, double clipped, Element* e) {
  const double decay = c.wd * u.wd_mult, g = clipped + decay * e->weight;
  switch (c.kind) {
    case OptimizerKind::kSgd:  // Apache MXNet 1.9, sgd_mom_update
      e->first = c.momentum * e->first - u.rate * g;
      e->weight += e->first;
      break;
    case OptimizerKind::kNag: {  // Sutskever et al. 2013, (3) and (4), in the variable that is stored
      const double before = e->first;
      e->first = c.momentum * before - u.rate * g;
      e->weight += (1 + c.momentum) * e->first - c.momentum * before;
      break;
    }
    case OptimizerKind::kAdam:
      e->weight -= u.rate * AdamStep(c, u.t, g, e);
      break;
    case OptimizerKind::kAdamW:  // Loshchilov, Hutter 2019, algorithm 2, with PyTorch's decay
      e->weight -= u.rate * (AdamStep(c, u.t, clipped, e) + decay * e->weight);
      break;
    case OptimizerKind::kAdaGrad:  // Duchi, Hazan, Singer 2011, figure 1 with the diagonal
      e->second += g * g;
      e->weight -= u.rate * g / (std::sqrt(e->second) + c.epsilon);
      break;
    case OptimizerKind::kRmsProp:
      e->weight += RmsPropStep(c, u.rate, g, e);
      break;
    case OptimizerKind::kFtrl:
      FtrlUpdate(c, u.rate, decay, u.rounding, clipped, e);
      break;
    case OptimizerKind::
        kDelayedNag: {  // Liu et al. 2024, algorithm 3 with c = 0, in the variable that is stored
      e->second -= u.rate * g;
      double step = -u.rate * g;
      if (u.t % u.per_step == 0) {
        e->first = c.momentum * e->first + std::exchange(e->second, 0);
        step += c.momentum * e->first;
      }
      e->weight += step;
      break;
    }
    case OptimizerKind::kSignum:  // Bernstein et al. 2018, algorithm 2, with MXNet's decoupled decay
      e->first = c.momentum * e->first + (1 - c.momentum) * g;
      e->weight = (1 - u.rate * c.wd_lh * u.wd_mult) * e->weight - u.rate * Sign(e->first);
      break;
    case OptimizerKind::kAccumulate:
    case OptimizerKind::kLamb:
      break;
  }
}

// Updates a whole array once.
inline void UpdateArray(const OptimizerConfig& config, const Update& u, std::span<const double> gradient,
                        std::span<Element> array) {
  const OptimizerConfig c = Resolved(config);
  std::vector<double> clipped;
  for (const double g : gradient) {
    const double scaled = c.rescale_grad * u.scale * g;
    clipped.push_back(c.clip_gradient > 0 ? std::clamp(scaled, -c.clip_gradient, c.clip_gradient) : scaled);
    if (c.kind == OptimizerKind::kAccumulate) array[clipped.size() - 1].weight += scaled;
  }
  if (c.kind == OptimizerKind::kLamb) return LambUpdate(c, u, clipped, array);
  for (size_t i = 0; i < array.size(); ++i) UpdateElement(c, u, clipped[i], &array[i]);
}

}  // namespace sluice::reference
