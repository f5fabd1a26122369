#include "tensor/cuda/kernels.h"

#include "tensor/cuda/product.h"

namespace sluice::cuda {

CudaKernels::CudaKernels(cudaStream_t stream, BadInput* found)
    : stream_(stream), found_(found), workspace_(stream), lengths_(stream) {}

CudaKernels::~CudaKernels() = default;

}  // namespace sluice::cuda
