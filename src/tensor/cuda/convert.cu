#include "tensor/cuda/conversion.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

template <typename To>
struct ConvertOp {
  template <typename From>
  __device__ To operator()(int64_t, From value) const {
    return Rounded<To>(Load(value));
  }
};

}  // namespace

void CudaKernels::Convert(const ConvertArgs& args) {
  WithType(args.from_type, [&]<typename From>(From) {
    const auto* const from = static_cast<const From*>(args.from);
    if constexpr (std::is_integral_v<From>) {
      Map(stream_, args.n, static_cast<float*>(args.to), ConvertOp<float>{}, from);
    } else {
      WithFloatingType(args.to_type, [&]<typename To>(To) {
        Map(stream_, args.n, static_cast<To*>(args.to), ConvertOp<To>{}, from);
      });
    }
  });
}

}  // namespace sluice::cuda
