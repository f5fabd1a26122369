// Losses of one element and their derivatives (kernels/row_loss.h has the formulas): p is the prediction, l
// the label, g the gradient by the row's loss divided by the number of columns.
#pragma once

#include <cmath>

#include "tensor/formulas/exp.h"

namespace sluice::formulas {

SLUICE_HOST_DEVICE SLUICE_INLINE float Square(float p, float l) {
  return 0.5f * (p - l) * (p - l);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float SquareGradient(float p, float l, float g) {
  return g * (p - l);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Absolute(float p, float l) {
  return Magnitude(p - l);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float AbsoluteGradient(float p, float l, float g) {
  return p > l ? g : (p < l ? -g : 0.0f);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Huber(float p, float l, float rho) {
  const float d = Magnitude(p - l);
  return d > rho ? d - 0.5f * rho : 0.5f * d * (d / rho);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float HuberGradient(float p, float l, float rho, float g) {
  const float d = (p - l) / rho;
  return g * (d > 1 ? 1.0f : (d < -1 ? -1.0f : d));
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Logistic(float p, float l) {
  return (p > 0 ? p : 0) - p * l + LogOnePlusExpOfMinus(Magnitude(p));
}
SLUICE_HOST_DEVICE SLUICE_INLINE float LogisticGradient(float p, float l, float g) {
  return g * (Sigmoid(p) - l);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Divergence(float p, float l) {
  constexpr float kSmallest = 1e-12f;  // is added before the logarithm, as Gluon's KLDivLoss does
  // A class that the label excludes and the prediction finds impossible: 0 times infinity would be NaN.
  const bool impossible = l == 0 && p == -HUGE_VALF;
  return impossible ? 0 : l * (std::log(l + kSmallest) - p);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float DivergenceGradient(float l, float g) {
  return -g * l;
}

}  // namespace sluice::formulas
