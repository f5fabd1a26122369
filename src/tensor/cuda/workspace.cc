#include "tensor/cuda/workspace.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {

Workspace::~Workspace() {
  Free();
}

void* Workspace::TakeBytes(size_t bytes) {
  if (bytes <= size_) return memory_;
  const size_t size = std::max(bytes, 2 * size_);
  Free();
  if (size > bytes && cudaMalloc(&memory_, size) == cudaSuccess) {
    size_ = size;
    return memory_;
  }
  Require(cudaMalloc(&memory_, bytes), StrCat("cudaMalloc of ", bytes, " bytes for a kernel"));
  size_ = bytes;
  return memory_;
}

// What was queued may still use the memory. An error of the wait is an error of that work, which reports it.
void Workspace::Free() noexcept {
  if (memory_ == nullptr) return;
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaFree(std::exchange(memory_, nullptr)));
  size_ = 0;
}

}  // namespace sluice::cuda
