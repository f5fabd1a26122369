#include "tensor/cpu/elementwise.h"

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {

SLUICE_SIMD void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = alpha * a[i] + beta * b[i];
}
SLUICE_SIMD void Affine(const float* a, float scale, float shift, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = scale * a[i] + shift;
}

namespace {

SLUICE_SIMD void MultiplyArrays(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}
SLUICE_SIMD void DivideArrays(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] / b[i];
}
SLUICE_SIMD void DivideBy(const float* a, float divisor, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] / divisor;
}
SLUICE_SIMD void DivideScalar(float dividend, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = dividend / b[i];
}

}  // namespace

void CpuKernels::Combine(const CombineArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) {
    cpu::Combine(args.alpha, args.a + i, args.beta, args.b + i, args.out + i, end - i);
  });
}

void CpuKernels::Multiply(const MultiplyArgs& args) {
  ParallelFor(args.n, kGrain,
              [&](int64_t i, int64_t end) { MultiplyArrays(args.a + i, args.b + i, args.out + i, end - i); });
}

void CpuKernels::Divide(const DivideArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) {
    if (args.a == nullptr) return DivideScalar(args.scalar, args.b + i, args.out + i, end - i);
    if (args.b == nullptr) return DivideBy(args.a + i, args.scalar, args.out + i, end - i);
    DivideArrays(args.a + i, args.b + i, args.out + i, end - i);
  });
}

void CpuKernels::Affine(const AffineArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) {
    cpu::Affine(args.a + i, args.scale, args.shift, args.out + i, end - i);
  });
}

}  // namespace sluice::cpu
