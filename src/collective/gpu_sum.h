// Sums on one GPU.
#pragma once

#include <span>

#include "sluice/ndarray.h"

namespace sluice::collective {

// Enqueues out = sum of values / 2^exponent, summed in order, on out's context, which is a GPU. Values on
// other contexts are copied to it first.
void EnqueueSumOnGpu(std::span<const NDArray> values, NDArray* out, uint32_t exponent);

}  // namespace sluice::collective
