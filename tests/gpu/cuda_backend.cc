#include "gpu/cuda_backend.h"

#include <cuda_runtime_api.h>

#include "tensor/cuda/error.h"
#include "tensor/cuda/kernels.h"

namespace sluice::testing {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend()
      : stream_(MakeStream()),
        found_(Allocate(sizeof(cuda::BadInput))),
        kernels_(std::make_unique<cuda::CudaKernels>(stream_, Found())) {
    Forget();
  }
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
    cuda::BadInput found;
    Download(found_.get(), reinterpret_cast<std::byte*>(&found), sizeof found);
    if (found.found == 0) return;
    Forget();
    throw cuda::ErrorOf(found);
  }

 private:
  static cudaStream_t MakeStream() {
    cudaStream_t stream = nullptr;
    cuda::Require(cudaSetDevice(0), "cudaSetDevice");
    cuda::Require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }

  cuda::BadInput* Found() const { return reinterpret_cast<cuda::BadInput*>(found_.get()); }
  void Forget() {
    cuda::Require(cudaMemsetAsync(found_.get(), 0, sizeof(cuda::BadInput), stream_), "cudaMemsetAsync");
  }

  const cudaStream_t stream_;
  const std::shared_ptr<std::byte> found_;  // a cuda::BadInput
  std::unique_ptr<cuda::CudaKernels> kernels_;
};

}  // namespace

std::shared_ptr<Backend> MakeCudaBackend() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return nullptr;
  return std::make_shared<CudaBackend>();
}

}  // namespace sluice::testing
