// gpu(i) in builds with CUDA: finds the GPUs and makes their devices. The CUDA runtime is linked statically
// and loads the driver at the first call.
#include "tensor/cuda/device.h"

#include <cuda_runtime_api.h>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cuda/library.h"
#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice {
namespace {

// CUDA numbers 13.0 as 13000.
std::string CudaVersionOf(int number) {
  return StrCat("CUDA ", number / 1000, ".", number % 1000 / 10);
}

// The runtime reports a driver that is too old where there is none as well.
std::string DriverAdvice() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "; NVIDIA's driver is not installed";
  return StrCat("; the driver is for ", CudaVersionOf(driver), " and this build needs ",
                CudaVersionOf(CUDART_VERSION), ": install a newer driver");
}

Failure Because(cudaError_t error) {
  return Fail(ErrorCode::kUnavailable, "CUDA finds no GPU: ", cudaGetErrorString(error), " (",
              cudaGetErrorName(error), ")", error == cudaErrorInsufficientDriver ? DriverAdvice() : "");
}

// NVIDIA's libraries number 9.19.0 as 91900.
std::string VersionOf(size_t number) {
  return StrCat(number / 10'000, ".", number / 100 % 100, ".", number % 100);
}

// `version` asks the library for its number.
template <typename Version>
GpuLibrary Find(const char* name, const char* file, Version&& version) {
  try {
    const cuda::Library library(file);
    return {name, VersionOf(version(library))};
  } catch (const Error& error) {
    return {name, Fail(error.code(), error.what())};
  }
}

GpuLibrary FindDriver() {
  int version = 0;  // 13000 for CUDA 13.0; 0: there is none
  if (const cudaError_t error = cudaDriverGetVersion(&version); error != cudaSuccess)
    return {"driver", Because(error)};
  if (version == 0) return {"driver", Fail(ErrorCode::kUnavailable, "NVIDIA's driver is not installed")};
  return {"driver", StrCat("for ", CudaVersionOf(version))};
}

}  // namespace

std::vector<GpuLibrary> FindGpuLibraries() {
  const auto calls = [](const char* function) {
    return [function](const cuda::Library& library) {
      size_t (*version)() = nullptr;
      library.Find(function, &version);
      return version();
    };
  };
  const auto nccl = [](const cuda::Library& library) {
    int (*version)(int*) = nullptr;
    library.Find("ncclGetVersion", &version);
    int number = 0;
    version(&number);
    return static_cast<size_t>(number);
  };
  return {FindDriver(), Find("cuBLASLt", cuda::kCublasLt, calls("cublasLtGetVersion")),
          Find("cuDNN", cuda::kCudnn, calls("cudnnGetVersion")), Find("NCCL", cuda::kNccl, nccl)};
}

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

std::shared_ptr<Device> MakeGpuDevice(int id, bool multiplies_tfloat32) {
  const Gpus found = FindGpus();
  if (!found.ok() || static_cast<size_t>(id) >= found.value().size()) GpuUnavailable(id, found).Throw();
  return cuda::MakeCard(id, multiplies_tfloat32);
}

}  // namespace sluice
