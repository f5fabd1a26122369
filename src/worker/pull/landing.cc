#include "worker/pull/landing.h"

#include <algorithm>
#include <cstring>

#include "base/copy_around.h"

namespace sluice::worker {
namespace {

std::byte* OwnMemory(const Destination& to) {
  return to.adopter == nullptr ? to.bytes.data() : to.adopter->TakeBack().data();
}

}  // namespace

bool Fits(const PartOp& op, const Frame& frame, Compression as) {
  if (as == Compression::kNone) return frame.size() == op.destination.bytes;
  return frame.size() ==
         compression::EncodedBytes({.type = as}, DType::kFloat32, op.destination.bytes / sizeof(float));
}

size_t Land(const PartOp& op, const Frame& frame, Compression as, size_t parts, bool around) {
  const Destination& destination = op.of_key().destination;
  if (as == Compression::kNone && frame.borrowed() && destination.adopter != nullptr) {
    if (parts == 1) {
      destination.adopter->Adopt(frame);
      return 0;
    }
    op.op->kept.resize(parts);
    op.op->kept[op.ref.part] = frame;
    return 0;
  }
  std::byte* to = OwnMemory(destination) + op.destination.offset;
  if (as == Compression::kNone && around) {
    CopyAround(to, frame.data(), frame.size());
  } else if (as == Compression::kNone) {
    std::memcpy(to, frame.data(), frame.size());
  } else {
    compression::Decode({frame.data(), frame.size(), as}, DType::kFloat32, 0,
                        op.destination.bytes / sizeof(float), reinterpret_cast<float*>(to));
  }
  return op.destination.bytes;
}

size_t LandKept(Operation& op, const std::vector<plan::Part>& parts, DType dtype,
                transport::SideBySide& views) {
  const Destination& destination = op.only().destination;
  const KeptFrames kept = std::exchange(op.kept, KeptFrames(op.kept.get_allocator()));
  if (std::ranges::all_of(kept, [](const Frame& frame) { return frame.borrowed(); })) {
    if (auto whole = views.Join(kept)) {
      destination.adopter->Adopt(std::move(*whole));
      return 0;
    }
  }
  size_t copied = 0;
  std::byte* to = OwnMemory(destination);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].borrowed()) continue;  // landed as it came
    std::memcpy(to + static_cast<size_t>(parts[i].offset) * SizeOf(dtype), kept[i].data(), kept[i].size());
    copied += kept[i].size();
  }
  return copied;
}

}  // namespace sluice::worker
