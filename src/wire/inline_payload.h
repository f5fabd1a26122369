// Memory blocks for encoded envelopes, and for payloads that travelled inside an envelope. Internal to wire/.
#pragma once

#include "wire/messages.h"

namespace sluice::wire {

using Block = std::shared_ptr<std::byte[]>;
// Returns a block from `memory`, with contents undefined. Throws Error(kResourceExhausted).
Block TakeBlock(size_t size, const std::shared_ptr<Allocator>& memory);

// Returns copies of the frames of `payload`, which share one block from `memory`.
Frames CopyInlinePayload(const PartList<Bytes>& payload, const std::shared_ptr<Allocator>& memory);

}  // namespace sluice::wire
