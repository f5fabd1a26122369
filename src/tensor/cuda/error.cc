#include "tensor/cuda/error.h"

#include <cuda_runtime_api.h>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cuda {

void Require(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return;
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable;
  throw Error(code, StrCat(call, " failed: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

}  // namespace sluice::cuda
