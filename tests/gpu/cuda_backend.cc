#include "gpu/cuda_backend.h"

#include <cuda_runtime_api.h>

#include "tensor/cuda/error.h"
#include "tensor/cuda/kernels.h"

namespace sluice::testing {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend() : stream_(MakeStream()), kernels_(std::make_unique<cuda::CudaKernels>(stream_)) {}
  ~CudaBackend() override {
    kernels_.reset();
    cudaStreamDestroy(stream_);
  }

  std::shared_ptr<std::byte> Allocate(size_t bytes) override {
    void* memory = nullptr;
    cuda::Require(cudaMalloc(&memory, bytes), "cudaMalloc");
    return {static_cast<std::byte*>(memory), [](std::byte* begin) { cudaFree(begin); }};
  }
  void Upload(const std::byte* from, std::byte* to, size_t bytes) override {
    cuda::Require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  void Download(const std::byte* from, std::byte* to, size_t bytes) override {
    cuda::Require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  void Run(const std::function<void(Kernels&)>& work) override {
    work(*kernels_);
    cuda::Require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  static cudaStream_t MakeStream() {
    cudaStream_t stream = nullptr;
    cuda::Require(cudaSetDevice(0), "cudaSetDevice");
    cuda::Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }

  const cudaStream_t stream_;
  std::unique_ptr<cuda::CudaKernels> kernels_;
};

}  // namespace

std::shared_ptr<Backend> MakeCudaBackend() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return nullptr;
  return std::make_shared<CudaBackend>();
}

}  // namespace sluice::testing
