// The one copy of the receiving side: from the network's frame into the destination's own memory.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

// Whether `frame` has the size that `op` waits for.
inline bool Fits(const PartOp& op, const Frame& frame) {
  return frame.size() == op.destination.bytes;
}
void Land(const PartOp& op, const Frame& frame);

}  // namespace sluice::worker
