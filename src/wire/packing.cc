#include "wire/packing.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/pool_allocator.h"

namespace sluice::wire {

size_t Pack(Message* message, const std::shared_ptr<Allocator>& memory) {
  const Frames& frames = message->payload;
  const uint64_t total = PayloadBytes(*message);
  if (frames.size() < 2 || total > std::min(kMostPacked, kPackedFrame * frames.size())) return 0;
  auto block = std::allocate_shared<Buffer>(MemoryOf<Buffer>(memory), total, memory);
  std::byte* at = block->data();
  for (const Frame& frame : frames) {
    message->packed.push_back(static_cast<uint32_t>(frame.size()));
    if (!frame.empty()) std::memcpy(at, frame.data(), frame.size());
    at += frame.size();
  }
  message->payload.clear();
  message->payload.push_back(Frame::Of(std::move(block)));
  return total;
}

Status Unpack(Message* message) {
  if (message->packed.empty()) return Status::Ok();
  const uint64_t total = std::accumulate(message->packed.begin(), message->packed.end(), uint64_t{0});
  if (message->payload.size() != 1 || message->payload[0].size() != total) {
    return Fail(ErrorCode::kInvalidArgument, BodyName(message->body), " has ", message->packed.size(),
                " frames of together ", total, " bytes packed in one, but came with ",
                message->payload.size(), " frames of ", PayloadBytes(*message), " bytes");
  }
  const Frame all = std::move(message->payload[0]);
  message->payload.clear();
  message->payload.reserve(message->packed.size());
  size_t offset = 0;
  for (const uint32_t size : message->packed) {
    message->payload.push_back(all.Slice(offset, size));
    offset += size;
  }
  message->packed.clear();
  return Status::Ok();
}

}  // namespace sluice::wire
