// gpu(i) in builds with CUDA: finds the GPUs and makes their devices. The CUDA runtime is linked statically
// and loads the driver at the first call.
#include "tensor/cuda/device.h"

#include <cuda_runtime_api.h>

#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice {
namespace {

Failure Because(cudaError_t error) {
  return Fail(ErrorCode::kUnavailable, "CUDA finds no GPU: ", cudaGetErrorString(error), " (",
              cudaGetErrorName(error), ")");
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
  const Gpus found = FindGpus();
  if (!found.ok() || static_cast<size_t>(id) >= found.value().size()) GpuUnavailable(id, found).Throw();
  return cuda::MakeCard(id);
}

}  // namespace sluice
