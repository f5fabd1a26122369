// Activations and their derivatives, one element at a time (kernels/activation.h). An activation of NaN is
// NaN. A derivative takes what ActivationBackwardArgs has as `kept`, the output y or the input x, and returns
// the gradient by x.
#pragma once

#include "tensor/formulas/exp.h"

namespace sluice::formulas {

// NaN stays NaN, and ReluGradient passes its gradient on, as in PyTorch: hence <= 0 and not > 0.
SLUICE_HOST_DEVICE SLUICE_INLINE float Relu(float x) {
  return x <= 0 ? 0 : x;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float ReluGradient(float y, float grad) {
  return y <= 0 ? 0 : grad;
}

SLUICE_HOST_DEVICE SLUICE_INLINE float LeakyRelu(float x, float alpha) {
  return x > 0 ? x : alpha * x;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float LeakyReluGradient(float y, float alpha, float grad) {
  return y > 0 ? grad : alpha * grad;
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Elu(float x, float alpha) {
  // Near 0, where e^x - 1 would lose digits, the series x + x^2 / 2 + x^3 / 6 is used.
  const float near = x + x * x * (0.5f + x * (1.0f / 6));
  const float minus = x > -0.01f ? near : Exp(x) - 1.0f;
  return x > 0 ? x : alpha * minus;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float EluGradient(float y, float alpha, float grad) {
  return y > 0 ? grad : (y + alpha) * grad;
}

SLUICE_HOST_DEVICE SLUICE_INLINE float TanhGradient(float y, float grad) {
  return grad * (1 - y * y);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float SigmoidGradient(float y, float grad) {
  return grad * y * (1 - y);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Gelu(float x) {
  return x * NormalCdf(x);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float GeluGradient(float x, float grad) {
  return grad * (NormalCdf(x) + x * NormalDensity(x));
}

SLUICE_HOST_DEVICE SLUICE_INLINE float SoftplusGradient(float x, float grad) {
  return grad * Sigmoid(x);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Silu(float x) {
  return x * Sigmoid(x);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float SiluGradient(float x, float grad) {
  const float s = Sigmoid(x);
  return grad * (s + x * s * (1 - s));
}

// x / (1 + |x|), with the limits 1 and -1 at infinity, where the formula would be NaN.
SLUICE_HOST_DEVICE SLUICE_INLINE float Softsign(float x) {
  const float magnitude = Magnitude(x);
  const float near = x / (1.0f + magnitude), far = x < 0 ? -1.0f : 1.0f;
  return magnitude > 0x1p60f ? far : near;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float SoftsignGradient(float x, float grad) {
  const float factor = 1.0f / (1.0f + Magnitude(x));
  return grad * factor * factor;
}

SLUICE_HOST_DEVICE SLUICE_INLINE float LogSigmoid(float x) {
  return -Softplus(-x);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float LogSigmoidGradient(float x, float grad) {
  return grad * Sigmoid(-x);
}

// tanh(log(1 + e^x)) = ((1 + e^x)^2 - 1) / ((1 + e^x)^2 + 1), computed from e^-|x| so that nothing overflows.
SLUICE_HOST_DEVICE SLUICE_INLINE float TanhOfSoftplus(float x) {
  const float e = Exp(-Magnitude(x));
  const float below = e * (e + 2.0f) / (e * (e + 2.0f) + 2.0f);
  const float above = (1.0f + 2.0f * e) / (1.0f + 2.0f * e + 2.0f * e * e);
  return x < 0 ? below : above;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float Mish(float x) {
  return x * TanhOfSoftplus(x);
}
SLUICE_HOST_DEVICE SLUICE_INLINE float MishGradient(float x, float grad) {
  const float t = TanhOfSoftplus(x);
  return grad * (t + x * (1.0f - t * t) * Sigmoid(x));
}

}  // namespace sluice::formulas
