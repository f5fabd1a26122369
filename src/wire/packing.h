// Combines several payload frames into one frame, one after another, and takes it apart again: each frame
// costs ZeroMQ a message, with reads and writes of its own, which cost more than the copy of a small frame.
#pragma once

#include <memory>

#include "base/result.h"
#include "wire/codec.h"

namespace sluice::wire {

// Frames are packed if their average size is at most this. libzmq 4.3.4 copies the
// first 8 KiB of a frame anyway.
inline constexpr size_t kPackedFrame = 16 << 10;
// Frames are packed or joined if their total size is at most this. The bound exists because a receiver that
// keeps one of the frames keeps the memory of all.
inline constexpr size_t kMostPacked = 1 << 20;

// Replaces the message's frames by one frame, without a copy, if they are two or more and lie one after
// another in the memory of one owner, such as parts of one array. Leased frames are left alone.
void Join(Message* message);
// Replaces the message's frames by one frame in `memory`, with a copy, if they are two or more and small.
// Returns the number of bytes copied; 0 if the message was left as it is.
size_t Pack(Message* message, const std::shared_ptr<Allocator>& memory);
// Undoes Join or Pack, without a copy; does nothing if `message->packed` is empty. The frames may lie at any
// alignment. Fails with kInvalidArgument if their sizes do not add up to the one frame that came.
Status Unpack(Message* message);

}  // namespace sluice::wire
