// gpu(i) in builds with CUDA: finds the GPUs, and says why none of them can be used yet. Streams, memory and
// kernels belong beside this file. The runtime is linked statically and loads the driver at the first call.
#include <cuda_runtime_api.h>

#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice {
namespace {

Failure Because(cudaError_t error) {
  const bool no_driver = error == cudaErrorInsufficientDriver;
  return Fail(ErrorCode::kUnavailable, "CUDA finds no GPU: ", cudaGetErrorString(error), " (",
              cudaGetErrorName(error), ")",
              no_driver ? "; install NVIDIA's driver for CUDA " : "; nvidia-smi shows what this machine has",
              no_driver ? StrCat(CUDART_VERSION / 1000, " or newer") : std::string());
}

}  // namespace

Gpus FindGpus() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return Because(error);
  if (count == 0) return Because(cudaErrorNoDevice);
  std::vector<GpuInfo> gpus;
  for (int id = 0; id < count; ++id) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, id); error != cudaSuccess)
      return Because(error);
    gpus.push_back({properties.name, properties.totalGlobalMem});
  }
  return gpus;
}

std::shared_ptr<Device> MakeGpuDevice(int id) {
  WhyNotGpu(id, FindGpus()).Throw();
}

}  // namespace sluice
