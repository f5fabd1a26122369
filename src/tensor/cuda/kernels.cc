#include "tensor/cuda/kernels.h"

#include "tensor/cuda/product.h"

namespace sluice::cuda {

CudaKernels::CudaKernels(cudaStream_t stream, BadInput* found, const std::function<bool()>& make_room)
    : stream_(stream), found_(found), workspace_(stream, make_room), lengths_(stream, make_room) {}

CudaKernels::~CudaKernels() = default;

}  // namespace sluice::cuda
