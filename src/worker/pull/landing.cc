#include "worker/pull/landing.h"

#include <cstring>

namespace sluice::worker {

void Land(const PartOp& op, const Frame& frame) {
  std::memcpy(op.op->destination.bytes.data() + op.destination.offset, frame.data(), frame.size());
}

}  // namespace sluice::worker
