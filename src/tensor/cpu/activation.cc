// Activations and their derivatives, one loop for each over the formulas of formulas/activation.h, which the
// compiler vectorises; the bits are the same on every instruction set.
// oneDNN computes tanh and sigmoid, but not their gradients. autograd/ops/activation.cc calls the methods, in
// work on the stream's thread; the loops run for pieces of the array, on the threads of the context's team.
#include "tensor/formulas/activation.h"

#include "base/check.h"
#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

namespace f = formulas;

SLUICE_SIMD void Relu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Relu(x[i]);
}
SLUICE_SIMD void LeakyRelu(const float* x, float alpha, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::LeakyRelu(x[i], alpha);
}
SLUICE_SIMD void Elu(const float* x, float alpha, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Elu(x[i], alpha);
}
SLUICE_SIMD void Gelu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Gelu(x[i]);
}
SLUICE_SIMD void Softplus(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Softplus(x[i]);
}
SLUICE_SIMD void Silu(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Silu(x[i]);
}
SLUICE_SIMD void Softsign(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Softsign(x[i]);
}
SLUICE_SIMD void LogSigmoid(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::LogSigmoid(x[i]);
}
SLUICE_SIMD void Mish(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f::Mish(x[i]);
}

SLUICE_SIMD void ReluBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::ReluGradient(y[i], grad[i]);
}
SLUICE_SIMD void TanhBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::TanhGradient(y[i], grad[i]);
}
SLUICE_SIMD void SigmoidBackward(const float* y, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::SigmoidGradient(y[i], grad[i]);
}
SLUICE_SIMD void LeakyReluBackward(const float* y, float alpha, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::LeakyReluGradient(y[i], alpha, grad[i]);
}
SLUICE_SIMD void EluBackward(const float* y, float alpha, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::EluGradient(y[i], alpha, grad[i]);
}
SLUICE_SIMD void GeluBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::GeluGradient(x[i], grad[i]);
}
SLUICE_SIMD void SoftplusBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::SoftplusGradient(x[i], grad[i]);
}
SLUICE_SIMD void SiluBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::SiluGradient(x[i], grad[i]);
}
SLUICE_SIMD void SoftsignBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::SoftsignGradient(x[i], grad[i]);
}
SLUICE_SIMD void LogSigmoidBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::LogSigmoidGradient(x[i], grad[i]);
}
SLUICE_SIMD void MishBackward(const float* x, const float* grad, float* grad_x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) grad_x[i] = f::MishGradient(x[i], grad[i]);
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
      return Softplus(x, out, n);
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
