// Structs <-> bytes. The only door to the generated protobuf code. On the wire a message is one envelope
// frame (protobuf, proto/) followed by its payload frames as they are; a small payload travels inside the
// envelope, since a frame of its own costs a message more than its bytes.
#pragma once

#include <optional>

#include "base/result.h"
#include "wire/messages.h"

namespace sluice::wire {

// The largest frame that anybody sends: the rows that a call brings to one part of a row-sparse key, or gets
// from it. Who would send a larger one refuses the call; parts of other keys have 1 MiB (plan::Placement).
inline constexpr size_t kMostFrameBytes = 8u << 20;

// An envelope of any version begins with so many that say which.
inline constexpr size_t kVersionBytes = 5;

// What is accepted from the network, whoever sends it.
struct Limits {
  size_t max_envelope_bytes = 16u << 20;
  size_t max_payload_frames = 4096;
  size_t max_frame_bytes = kMostFrameBytes;
  size_t max_message_bytes = 32u << 20;
  size_t max_parts = 65536;        // parts named in one message
  size_t max_keys = 65536;         // keys in one declaration
  size_t max_set_keys = 1u << 20;  // that one optimiser speaks of: multipliers, first rounds
  size_t max_stores = 65536;
  size_t max_nodes = 65536;
  size_t max_text_bytes = 64u << 10;  // a name, an address, an error text
};

// Of what workers send to a server's shard: one such frame, or a batch of smaller ones.
Limits LimitsOfShards();

// A payload of at most so many bytes, all frames together, travels inside.
inline constexpr size_t kSmallPayload = 256;
bool PayloadTravelsInside(const Message& message);

// The envelope frame of `message`, with its payload if that travels inside. Another `version` is for one
// purpose: to tell a peer of that version, by ErrorReply, why it is refused (the header and ErrorReply are
// the same in every version). The frame's bytes lie in `memory`.
Frame EncodeEnvelope(const Message& message, uint32_t version = kProtocolVersion,
                     const std::shared_ptr<Allocator>& memory = HeapAllocator());

// Everything but a payload that comes in frames of its own; one that travelled inside lies in `memory`. Never
// throws, never allocates more than the limits allow. Another protocol version is an error that names both
// versions.
Result<Message> DecodeEnvelope(Bytes bytes, const Limits& limits,
                               const std::shared_ptr<Allocator>& memory = HeapAllocator());

// What can be read of a message of any version, to answer one that was refused; nullopt when nothing can.
struct Header {
  uint32_t version = 0;
  uint64_t job = 0;
  uint64_t id = 0;
  uint64_t in_reply_to = 0;
};
std::optional<Header> PeekHeader(Bytes bytes, const Limits& limits);

// The number and the sizes of `message.payload` fit its body and the limits. What a key or part is, only its
// owner knows.
Status ValidatePayload(const Message& message, const Limits& limits);

}  // namespace sluice::wire
