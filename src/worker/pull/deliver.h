// Delivers a value to its destination: copies it from the network's frame into the destination's
// own memory, or, when the frame is leased and the destination can adopt or take it, leaves it in the
// server's memory, where it is read.
#pragma once

#include "kvstore/plan/placement.h"
#include "transport/shm/contiguous_view.h"
#include "worker/operation.h"

namespace sluice::worker {

// Whether `frame`, encoded as `as`, has the size that `op` waits for.
bool Fits(const PartOp& op, const Frame& frame, Compression as);
// Delivers one part of a key that has `parts` parts. A frame to be adopted is kept in Operation::kept until
// all parts have arrived (DeliverKept), unless it is the only part. `non_temporal`: copy with non-temporal
// stores. Returns the bytes copied.
size_t Deliver(const PartOp& op, const Frame& frame, Compression as, size_t parts, bool non_temporal);
// Called when all parts have arrived: the destination adopts the kept frames, side by side. They are copied
// instead when some parts were not leased or the pieces cannot be joined. Returns the bytes copied.
size_t DeliverKept(Operation& op, const std::vector<plan::Part>& parts, DType dtype,
                   transport::ContiguousView& views);

}  // namespace sluice::worker
