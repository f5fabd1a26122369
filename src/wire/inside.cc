#include <cstring>

#include "base/pool_allocator.h"
#include "wire/inline_payload.h"

namespace sluice::wire {

Block TakeBlock(size_t size, const std::shared_ptr<Allocator>& memory) {
  return std::allocate_shared_for_overwrite<std::byte[]>(MemoryOf<std::byte>(memory), size);
}

Frames CopyInlinePayload(const PartList<Bytes>& payload, const std::shared_ptr<Allocator>& memory) {
  size_t total = 0;
  for (const Bytes bytes : payload) total += bytes.size();
  const Block block = TakeBlock(total, memory);
  Frames frames;
  frames.reserve(payload.size());
  std::byte* at = block.get();
  for (const Bytes bytes : payload) {
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    frames.emplace_back(Bytes(at, bytes.size()), block);
    at += bytes.size();
  }
  return frames;
}

}  // namespace sluice::wire
