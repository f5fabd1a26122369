// Sums and copies of arrays in host memory, for the reducers.
#pragma once

#include <span>

#include "collective/reducer.h"
#include "sluice/ndarray.h"

namespace sluice::collective {

// Enqueues out = sum of values / 2^exponent, summed in order, on out's context, which is no GPU. Values on
// GPUs are copied to it first.
void EnqueueSum(const HostWork& host_work, std::span<const NDArray> values, NDArray* out, int threads,
                uint32_t exponent = 0);

// Whether EnqueueCopy can copy `value` to `out`: both are on cpu contexts, and have the same shape and dtype.
bool IsAlikeOnHost(const NDArray& value, const NDArray& out);
// Enqueues out = value. It runs on value's context if that is cpu_pinned, which computes
// nothing, so that no device waits in the middle of a backward for a weight that the next
// forward reads; otherwise on out's context.
void EnqueueCopy(const HostWork& host_work, const NDArray& value, NDArray* out);

}  // namespace sluice::collective
