// Kernels for a program with faults that the sanitizers must find.
#pragma once

#include <driver_types.h>

namespace sluice::emulation {

inline constexpr int kValues = 64;  // a thread of one block for each

// Moves every value one place down and the first to the end. With `waits` false a barrier is missing.
void Rotate(cudaStream_t stream, float* values, bool waits);
void Increment(cudaStream_t stream, float* values);

}  // namespace sluice::emulation
