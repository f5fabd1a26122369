// Errors of cards: what a failed call of the CUDA runtime becomes, and what is known later.
#pragma once

#include <driver_types.h>

#include <exception>
#include <functional>
#include <string_view>

namespace sluice::cuda {

// Throws an Error that names `call` and CUDA's reason unless `error` is cudaSuccess: kResourceExhausted where
// memory is missing, else kUnavailable.
void Require(cudaError_t error, std::string_view call);

// Returns the error of an operation that the card has ended, or null: for what others than the card find out.
using LateError = std::function<std::exception_ptr()>;

}  // namespace sluice::cuda
