// What a failed call of the CUDA runtime becomes.
#pragma once

#include <driver_types.h>

#include <string_view>

namespace sluice::cuda {

// Throws an Error that names `call` and CUDA's reason unless `error` is cudaSuccess: kResourceExhausted where
// memory is missing, else kUnavailable.
void Require(cudaError_t error, std::string_view call);

}  // namespace sluice::cuda
