#include "worker/pull/deliver.h"

#include <algorithm>
#include <cstring>

#include "base/non_temporal_copy.h"

namespace sluice::worker {
namespace {

std::byte* OwnMemory(const Destination& to) {
  return to.buffer_slot == nullptr ? to.bytes.data() : to.buffer_slot->RestoreOwnBuffer().data();
}

}  // namespace

bool Fits(const PartOp& op, const Frame& frame, Compression as) {
  if (as == Compression::kNone) return frame.size() == op.destination.bytes;
  return frame.size() ==
         compression::EncodedBytes({.type = as}, DType::kFloat32, op.destination.bytes / sizeof(float));
}

size_t Deliver(const PartOp& op, const Frame& frame, Compression as, size_t parts, bool non_temporal) {
  const Destination& destination = op.key_op().destination;
  if (as == Compression::kNone && frame.leased() && destination.buffer_slot != nullptr) {
    if (parts == 1) {
      destination.buffer_slot->Adopt(frame);
      return 0;
    }
    op.op->kept.resize(parts);
    op.op->kept[op.ref.part] = frame;
    return 0;
  }
  if (as == Compression::kNone && frame.leased() && destination.leased != nullptr) {
    destination.leased->push_back({op.destination.offset, frame});
    return 0;
  }
  std::byte* to = OwnMemory(destination) + op.destination.offset;
  if (as == Compression::kNone && non_temporal) {
    NonTemporalCopy(to, frame.data(), frame.size());
  } else if (as == Compression::kNone) {
    std::memcpy(to, frame.data(), frame.size());
  } else {
    compression::Decode({frame.data(), frame.size(), as}, DType::kFloat32, 0,
                        op.destination.bytes / sizeof(float), reinterpret_cast<float*>(to));
  }
  return op.destination.bytes;
}

size_t DeliverKept(Operation& op, const std::vector<plan::Part>& parts, DType dtype,
                   transport::ContiguousView& views) {
  const Destination& destination = op.only().destination;
  const KeptFrames kept = std::exchange(op.kept, KeptFrames(op.kept.get_allocator()));
  if (std::ranges::all_of(kept, [](const Frame& frame) { return frame.leased(); })) {
    if (auto whole = views.Join(kept)) {
      destination.buffer_slot->Adopt(std::move(*whole));
      return 0;
    }
  }
  size_t copied = 0;
  std::byte* to = OwnMemory(destination);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i].leased()) continue;  // Deliver has copied this part
    std::memcpy(to + static_cast<size_t>(parts[i].offset) * SizeOf(dtype), kept[i].data(), kept[i].size());
    copied += kept[i].size();
  }
  return copied;
}

}  // namespace sluice::worker
