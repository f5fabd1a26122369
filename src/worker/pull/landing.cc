#include "worker/pull/landing.h"

#include <cstring>

namespace sluice::worker {

bool Fits(const PartOp& op, const Frame& frame, Compression as) {
  if (as == Compression::kNone) return frame.size() == op.destination.bytes;
  return frame.size() ==
         compression::EncodedBytes({.type = as}, DType::kFloat32, op.destination.bytes / sizeof(float));
}

void Land(const PartOp& op, const Frame& frame, Compression as) {
  std::byte* to = op.op->destination.bytes.data() + op.destination.offset;
  if (as == Compression::kNone) {
    std::memcpy(to, frame.data(), frame.size());
    return;
  }
  compression::Decode({frame.data(), frame.size(), as}, DType::kFloat32, 0,
                      op.destination.bytes / sizeof(float), reinterpret_cast<float*>(to));
}

}  // namespace sluice::worker
