// The lock of allocations of CUDA.
#pragma once

#include "base/mutex.h"

namespace sluice::cuda {

// Is held during calls that allocate, free or pin memory, and while an operation of several cards is launched
// (collective/nccl/). Such a call may wait for a card's work, and that for the kernel of another card; if the
// kernel were launched behind the call, both would wait for ever. CUDA is one for the process, and so is the
// lock.
inline constinit Mutex allocation_mutex;

}  // namespace sluice::cuda
