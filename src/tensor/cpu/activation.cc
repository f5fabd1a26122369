// Activations and their derivatives, one loop for each. Loops have no branches and use exp.h, so that the
// compiler vectorises them and the bits are the same on every instruction set. An activation of NaN is NaN.
// oneDNN computes tanh and sigmoid, but not their gradients. The methods are called on the stream's thread;
// the loops run for pieces of the array, on the threads of the context's team.
#include "base/check.h"
#include "base/simd.h"
#include "tensor/cpu/exp.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

// x / (1 + |x|), with the limits 1 and -1 at infinity, where the formula would be NaN.
SLUICE_INLINE float SoftsignOf(float x) {
  const float magnitude = Magnitude(x);
  const float near = x / (1.0f + magnitude), far = x < 0 ? -1.0f : 1.0f;
  return magnitude > 0x1p60f ? far : near;
}
// tanh(log(1 + e^x)) = ((1 + e^x)^2 - 1) / ((1 + e^x)^2 + 1), computed from e^-|x| so that nothing overflows.
SLUICE_INLINE float TanhOfSoftplus(float x) {
  const float e = Exp(-Magnitude(x));
  const float below = e * (e + 2.0f) / (e * (e + 2.0f) + 2.0f);
  const float above = (1.0f + 2.0f * e) / (1.0f + 2.0f * e + 2.0f * e * e);
  return x < 0 ? below : above;
}

// NaN stays NaN, and ReluBackward passes its gradient on, as in PyTorch: hence <= 0 and not > 0.
SLUICE_SIMD void Relu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] <= 0 ? 0 : x[i];
}
SLUICE_SIMD void LeakyRelu(const float* x, float alpha, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > 0 ? x[i] : alpha * x[i];
}
SLUICE_SIMD void Elu(const float* x, float alpha, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    // Near 0, where e^x - 1 would lose digits, the series x + x^2 / 2 + x^3 / 6 is used.
    const float near = x[i] + x[i] * x[i] * (0.5f + x[i] * (1.0f / 6));
    const float minus = x[i] > -0.01f ? near : Exp(x[i]) - 1.0f;
    out[i] = x[i] > 0 ? x[i] : alpha * minus;
  }
}
SLUICE_SIMD void Gelu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * NormalCdf(x[i]);
}
SLUICE_SIMD void SoftplusOf(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Softplus(x[i]);
}
SLUICE_SIMD void Silu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * Sigmoid(x[i]);
}
SLUICE_SIMD void Softsign(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = SoftsignOf(x[i]);
}
SLUICE_SIMD void LogSigmoid(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = -Softplus(-x[i]);
}
SLUICE_SIMD void Mish(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * TanhOfSoftplus(x[i]);
}

SLUICE_SIMD void ReluBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] <= 0 ? 0 : grad[i];
}
SLUICE_SIMD void TanhBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * (1 - y[i] * y[i]);
}
SLUICE_SIMD void SigmoidBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * y[i] * (1 - y[i]);
}
SLUICE_SIMD void LeakyReluBackward(const float* y, float alpha, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] > 0 ? grad[i] : alpha * grad[i];
}
SLUICE_SIMD void EluBackward(const float* y, float alpha, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = y[i] > 0 ? grad[i] : (y[i] + alpha) * grad[i];
}
SLUICE_SIMD void GeluBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * (NormalCdf(x[i]) + x[i] * NormalDensity(x[i]));
}
SLUICE_SIMD void SoftplusBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * Sigmoid(x[i]);
}
SLUICE_SIMD void SiluBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float s = Sigmoid(x[i]);
    grad_x[i] = grad[i] * (s + x[i] * s * (1 - s));
  }
}
SLUICE_SIMD void SoftsignBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float factor = 1.0f / (1.0f + Magnitude(x[i]));
    grad_x[i] = grad[i] * factor * factor;
  }
}
SLUICE_SIMD void LogSigmoidBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = grad[i] * Sigmoid(-x[i]);
}
SLUICE_SIMD void MishBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float t = TanhOfSoftplus(x[i]);
    grad_x[i] = grad[i] * (t + x[i] * (1.0f - t * t) * Sigmoid(x[i]));
  }
}

void Activate(const ActivationShape& a, const float* x, float* out, int64_t n) {
  switch (a.kind) {
    case ActivationKind::kRelu:
      return Relu(x, out, n);
    case ActivationKind::kLeakyRelu:
      return LeakyRelu(x, a.alpha, out, n);
    case ActivationKind::kElu:
      return Elu(x, a.alpha, out, n);
    case ActivationKind::kGelu:
      return Gelu(x, out, n);
    case ActivationKind::kSoftplus:
      return SoftplusOf(x, out, n);
    case ActivationKind::kSilu:
      return Silu(x, out, n);
    case ActivationKind::kSoftsign:
      return Softsign(x, out, n);
    case ActivationKind::kLogSigmoid:
      return LogSigmoid(x, out, n);
    case ActivationKind::kMish:
      return Mish(x, out, n);
    case ActivationKind::kTanh:
    case ActivationKind::kSigmoid:
      break;
  }
  SLUICE_CHECK(false) << "oneDNN computes tanh and sigmoid";
}

void Differentiate(const ActivationShape& a, const float* kept, const float* grad, float* grad_x, int64_t n) {
  switch (a.kind) {
    case ActivationKind::kRelu:
      return ReluBackward(kept, grad, grad_x, n);
    case ActivationKind::kTanh:
      return TanhBackward(kept, grad, grad_x, n);
    case ActivationKind::kSigmoid:
      return SigmoidBackward(kept, grad, grad_x, n);
    case ActivationKind::kLeakyRelu:
      return LeakyReluBackward(kept, a.alpha, grad, grad_x, n);
    case ActivationKind::kElu:
      return EluBackward(kept, a.alpha, grad, grad_x, n);
    case ActivationKind::kGelu:
      return GeluBackward(kept, grad, grad_x, n);
    case ActivationKind::kSoftplus:
      return SoftplusBackward(kept, grad, grad_x, n);
    case ActivationKind::kSilu:
      return SiluBackward(kept, grad, grad_x, n);
    case ActivationKind::kSoftsign:
      return SoftsignBackward(kept, grad, grad_x, n);
    case ActivationKind::kLogSigmoid:
      return LogSigmoidBackward(kept, grad, grad_x, n);
    case ActivationKind::kMish:
      return MishBackward(kept, grad, grad_x, n);
  }
}

}  // namespace

void CpuKernels::Activation(const ActivationArgs& args) {
  if (args.n == 0) return;
  if (args.shape.kind == ActivationKind::kTanh) return onednn_.Tanh(args.x, args.out, args.n);
  if (args.shape.kind == ActivationKind::kSigmoid) return onednn_.Sigmoid(args.x, args.out, args.n);
  ParallelFor(args.n, kGrain,
              [&](int64_t i, int64_t end) { Activate(args.shape, args.x + i, args.out + i, end - i); });
}

void CpuKernels::ActivationBackward(const ActivationBackwardArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) {
    Differentiate(args.shape, args.kept + i, args.grad + i, args.grad_x + i, end - i);
  });
}

}  // namespace sluice::cpu
