// Several payload frames travel as one, one behind the other: a frame of its own costs ZeroMQ a message, and
// its own reading and writing, which are more than the copy of a small one.
#pragma once

#include <memory>

#include "base/result.h"
#include "wire/codec.h"

namespace sluice::wire {

// On average, of frames that travel packed. libzmq 4.3.4 copies the first 8 KiB of a frame anyway.
inline constexpr size_t kPackedFrame = 16 << 10;
// All together. Whoever keeps one frame keeps what it came with.
inline constexpr size_t kMostPacked = 1 << 20;

// Makes one frame of two or more that lie one behind the other in memory of one owner, such as parts of one
// array; no copy.
void Join(Message* message);
// Makes one frame, in `memory`, of two or more that are small. The bytes copied: 0, and the message is as it
// was, when they are not.
size_t Pack(Message* message, const std::shared_ptr<Allocator>& memory);
// The frames that were packed, if any were, again; no copy. They may lie at any alignment.
Status Unpack(Message* message);

}  // namespace sluice::wire
