#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

struct CombineOp {
  float alpha, beta;
  __device__ float operator()(int64_t, float a, float b) const { return alpha * a + beta * b; }
};
struct MultiplyOp {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};
struct DivideOp {
  __device__ float operator()(int64_t, float a, float b) const { return a / b; }
};
struct DivideByOp {
  float divisor;
  __device__ float operator()(int64_t, float a) const { return a / divisor; }
};
struct DivideScalarOp {
  float dividend;
  __device__ float operator()(int64_t, float b) const { return dividend / b; }
};
struct AffineOp {
  float scale, shift;
  __device__ float operator()(int64_t, float a) const { return scale * a + shift; }
};

}  // namespace

void CudaKernels::Combine(const CombineArgs& args) {
  Map(stream_, args.n, args.out, CombineOp{args.alpha, args.beta}, args.a, args.b);
}

void CudaKernels::Multiply(const MultiplyArgs& args) {
  Map(stream_, args.n, args.out, MultiplyOp{}, args.a, args.b);
}

void CudaKernels::Divide(const DivideArgs& args) {
  if (args.a == nullptr) return Map(stream_, args.n, args.out, DivideScalarOp{args.scalar}, args.b);
  if (args.b == nullptr) return Map(stream_, args.n, args.out, DivideByOp{args.scalar}, args.a);
  Map(stream_, args.n, args.out, DivideOp{}, args.a, args.b);
}

void CudaKernels::Affine(const AffineArgs& args) {
  Map(stream_, args.n, args.out, AffineOp{args.scale, args.shift}, args.a);
}

}  // namespace sluice::cuda
