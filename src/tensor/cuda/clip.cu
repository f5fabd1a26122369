// Sums of squares and scaling, for the arrays of which the global norm is clipped.
#include "tensor/cuda/conversion.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/sum.cuh"

namespace sluice::cuda {
namespace {

struct Square {
  template <typename T>
  __device__ double operator()(T value) const {
    const auto wide = static_cast<double>(Load(value));
    return wide * wide;
  }
};

struct ScaleOp {
  double factor;
  template <typename T>
  __device__ T operator()(int64_t, T value) const {
    return Rounded<T>(static_cast<Computed<T>>(static_cast<double>(Load(value)) * factor));
  }
};

}  // namespace

void CudaKernels::SumOfSquares(const SumOfSquaresArgs& args) {
  WithFloatingType(args.dtype, [&]<typename T>(T) {
    SumEachRow(stream_, workspace_, static_cast<const T*>(args.a), 1, args.n, args.sum, Square{});
  });
}

void CudaKernels::Scale(const ScaleArgs& args) {
  WithFloatingType(args.dtype, [&]<typename T>(T) {
    Map(stream_, args.n, static_cast<T*>(args.a), ScaleOp{args.factor}, static_cast<const T*>(args.a));
  });
}

}  // namespace sluice::cuda
