#include "wire/packing.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/pool_allocator.h"

namespace sluice::wire {

namespace {

bool AreSmall(const Frames& frames, uint64_t total) {
  return frames.size() > 1 && total <= std::min(kMostPacked, kPackedFrame * frames.size());
}

// Whether the frames lie one after another in memory of one owner, and are not leased.
bool LieTogether(const Frames& frames) {
  for (size_t i = 1; i < frames.size(); ++i) {
    if (frames[i].owner() != frames[0].owner() ||
        frames[i].data() != frames[i - 1].data() + frames[i - 1].size())
      return false;
  }
  return !frames[0].leased();
}

void Replace(Message* message, Frame all) {
  message->packed.reserve(message->payload.size());
  for (const Frame& frame : message->payload) message->packed.push_back(static_cast<uint32_t>(frame.size()));
  message->payload.clear();
  message->payload.push_back(std::move(all));
}

}  // namespace

void Join(Message* message) {
  const Frames& frames = message->payload;
  const uint64_t total = PayloadBytes(*message);
  if (frames.size() < 2 || total > kMostPacked || !LieTogether(frames)) return;
  Replace(message, Frame(Bytes(frames[0].data(), total), frames[0].owner()));
}

size_t Pack(Message* message, const std::shared_ptr<Allocator>& memory) {
  const Frames& frames = message->payload;
  const uint64_t total = PayloadBytes(*message);
  if (!AreSmall(frames, total)) return 0;
  auto block = std::allocate_shared<Buffer>(MemoryOf<Buffer>(memory), total, memory);
  std::byte* at = block->data();
  for (const Frame& frame : frames) {
    if (!frame.empty()) std::memcpy(at, frame.data(), frame.size());
    at += frame.size();
  }
  Replace(message, Frame::Of(std::move(block)));
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
