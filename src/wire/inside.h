// Blocks for encoded envelopes, and for payloads that travelled inside one. Internal to wire/.
#pragma once

#include "wire/messages.h"

namespace sluice::wire {

using Block = std::shared_ptr<std::byte[]>;
// Its contents are undefined.
Block TakeBlock(size_t size, const std::shared_ptr<Allocator>& memory);

// Copies of `payload`, in one block.
Frames CopyInside(const PartList<Bytes>& payload, const std::shared_ptr<Allocator>& memory);

}  // namespace sluice::wire
