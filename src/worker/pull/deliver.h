// The end of a value's way. It is copied from the network's frame into the destination's own memory; or,
// where a server has lent it and the destination adopts, it stays where it is and is read there.
#pragma once

#include "kvstore/plan/placement.h"
#include "transport/shm/contiguous_view.h"
#include "worker/operation.h"

namespace sluice::worker {

// Whether `frame`, compressed so, has the size that `op` waits for.
bool Fits(const PartOp& op, const Frame& frame, Compression as);
// Of a key of so many parts. A frame to be adopted is kept until all have come. `around`: what is copied goes
// around the caches. Returns the bytes copied.
size_t Deliver(const PartOp& op, const Frame& frame, Compression as, size_t parts, bool non_temporal);
// All have: what was kept is adopted, side by side. Copied, where some were not lent or do not fit together.
// Returns the bytes copied.
size_t DeliverKept(Operation& op, const std::vector<plan::Part>& parts, DType dtype,
                   transport::ContiguousView& views);

}  // namespace sluice::worker
