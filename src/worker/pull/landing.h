// The one copy of the receiving side: from the network's frame into the destination's own memory.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

// Whether `frame`, compressed so, has the size that `op` waits for.
bool Fits(const PartOp& op, const Frame& frame, Compression as);
void Land(const PartOp& op, const Frame& frame, Compression as);

}  // namespace sluice::worker
