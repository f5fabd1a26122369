// Summing arrays in host memory.
#pragma once

#include <span>

#include "sluice/ndarray.h"

namespace sluice::collective {

// Enqueues out = sum of values, in order, on the stream of `out`; all on cpu contexts.
void EnqueueSum(std::span<const NDArray> values, NDArray* out, int threads);

}  // namespace sluice::collective
