// e^x and functions made of it, for the loops of cpu/ and the kernels of cuda/. They have no branch, no table
// and no call, so that the compiler vectorises them, and give the same bits on every instruction set
// (base/simd.h) and on a card.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "base/simd.h"

namespace sluice::formulas {

// e^x within 2 units of the last place; 0 below -87.3 (no subnormals), infinity above 88.72,
// NaN for NaN. The argument is reduced to [-ln 2 / 2, ln 2 / 2] in two steps, and a
// polynomial is used there, as in Cephes' expf (Moshier).
SLUICE_HOST_DEVICE SLUICE_INLINE float Exp(float x) {
  constexpr float kLowest = -87.3f, kHighest = 88.72f;
  const float in = x < kLowest ? kLowest : (x > kHighest ? kHighest : x);
  constexpr float kRound = 0x1.8p23f;  // adding and subtracting it rounds to a whole number
  const float n = (in * 1.44269504088896341f + kRound) - kRound;
  const float r = (in - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n is computed as two factors, because n may be 128, whose power is no float.
  const auto whole = static_cast<int32_t>(n);
  const int32_t half = whole >> 1;
  const float y =
      p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((whole - half + 127) << 23);
  const float over = x > kHighest ? HUGE_VALF : y;
  const float under = x < kLowest ? 0.0f : over;
  return x == x ? under : x;
}

// log(1 + e^-magnitude) for magnitude >= 0, with a small relative error everywhere: with e = e^-magnitude it
// is 2 artanh(e / (2 + e)), computed by its series; e / (2 + e) <= 1/3.
SLUICE_HOST_DEVICE SLUICE_INLINE float LogOnePlusExpOfMinus(float magnitude) {
  const float e = Exp(-magnitude), s = e / (2.0f + e), q = s * s;
  float p = 1.0f / 15;
  p = p * q + 1.0f / 13;
  p = p * q + 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  return 2.0f * s * (p * q + 1.0f);
}

SLUICE_HOST_DEVICE SLUICE_INLINE float Magnitude(float x) {
  return x < 0 ? -x : x;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float Softplus(float x) {
  return (x > 0 ? x : 0) + LogOnePlusExpOfMinus(Magnitude(x));
}
// 1 / (1 + e^-x), computed from e^-|x| so that nothing overflows.
SLUICE_HOST_DEVICE SLUICE_INLINE float Sigmoid(float x) {
  const float e = Exp(-Magnitude(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
// tanh x within 2 units of the last place: for |x| < 0.625 a polynomial (Cephes' tanhf, Moshier), above it
// 1 - 2 / (e^2|x| + 1) with the sign of x.
SLUICE_HOST_DEVICE SLUICE_INLINE float Tanh(float x) {
  const float magnitude = Magnitude(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = x + x * z * p, far = 1.0f - 2.0f / (Exp(2.0f * magnitude) + 1.0f);
  const float other = x < 0 ? -far : far;
  return magnitude < 0.625f ? near : other;
}
// The normal distribution function (1 + erf(x / sqrt 2)) / 2, with erf within
// 1.5e-7 (Abramowitz, Stegun 1964, 7.1.26).
SLUICE_HOST_DEVICE SLUICE_INLINE float NormalCdf(float x) {
  const float z = Magnitude(x) * 0.70710678118654752f, t = 1.0f / (1.0f + 0.3275911f * z);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float tail = 0.5f * p * t * Exp(-z * z);
  return x < 0 ? tail : 1.0f - tail;
}
SLUICE_HOST_DEVICE SLUICE_INLINE float NormalDensity(float x) {
  return 0.39894228040143268f * Exp(-0.5f * x * x);
}

}  // namespace sluice::formulas
