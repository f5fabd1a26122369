#include "tensor/cuda/workspace.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "tensor/cuda/allocation_mutex.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {

Workspace::~Workspace() {
  Free();
}

void* Workspace::TakeBytes(size_t bytes) {
  if (bytes <= size_) return memory_;
  const size_t size = std::max(bytes, 2 * size_);
  Free();
  if (size > bytes && Allocate(size) == cudaSuccess) return memory_;
  cudaError_t error = Allocate(bytes);
  if (error == cudaErrorMemoryAllocation && make_room_ && make_room_()) error = Allocate(bytes);
  Require(error, StrCat("cudaMalloc of ", bytes, " bytes for a kernel"));
  return memory_;
}

cudaError_t Workspace::Allocate(size_t bytes) {
  const MutexLock lock(allocation_mutex);
  const cudaError_t error = cudaMalloc(&memory_, bytes);
  if (error == cudaSuccess) size_ = bytes;
  if (error == cudaErrorMemoryAllocation)
    static_cast<void>(cudaGetLastError());  // it would be reported again
  return error;
}

// What was queued may still use the memory. An error of the wait is an error of that work, which reports it.
void Workspace::Free() noexcept {
  if (memory_ == nullptr) return;
  static_cast<void>(cudaStreamSynchronize(stream_));
  const MutexLock lock(allocation_mutex);
  static_cast<void>(cudaFree(std::exchange(memory_, nullptr)));
  size_ = 0;
}

}  // namespace sluice::cuda
