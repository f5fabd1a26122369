// Sums and copies of arrays in host memory.
#pragma once

#include <span>

#include "collective/reducer.h"
#include "sluice/ndarray.h"

namespace sluice::collective {

// out = sum of values / 2^exponent, in order, as work of out's context; all on cpu contexts.
void EnqueueSum(const HostWork& host_work, std::span<const NDArray> values, NDArray* out, int threads,
                uint32_t exponent = 0);

// Whether EnqueueCopy can copy: both on cpu contexts, of one shape and dtype.
bool IsAlikeOnHost(const NDArray& value, const NDArray& out);
// out = value, as work of value's context where that computes nothing (cpu_pinned), so that no device waits
// in the middle of a backward for a weight that the next forward reads; else of out's.
void EnqueueCopy(const HostWork& host_work, const NDArray& value, NDArray* out);

}  // namespace sluice::collective
