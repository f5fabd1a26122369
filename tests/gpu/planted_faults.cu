#include "gpu/planted_faults.h"
#include "tensor/cuda/launch.h"

namespace sluice::emulation {
namespace {

// Writes each element's neighbour to its place, the last one's being the first.
template <bool kWaits>
__global__ void RotateKernel(float* values) {
  __shared__ float shared[cuda::kThreads];
  shared[threadIdx.x] = values[threadIdx.x];
  if (kWaits) __syncthreads();
  values[threadIdx.x] = shared[(threadIdx.x + 1) % cuda::kThreads];
}

__global__ void IncrementKernel(float* values) {
  values[threadIdx.x] += 1;
}

}  // namespace

void Rotate(cudaStream_t stream, float* values, bool waits) {
  cuda::Launch(stream, 1, waits ? RotateKernel<true> : RotateKernel<false>, values);
}

void Increment(cudaStream_t stream, float* values) {
  cuda::Launch(stream, 1, IncrementKernel, values);
}

}  // namespace sluice::emulation
