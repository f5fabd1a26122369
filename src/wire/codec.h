// Encodes messages.h's structs to bytes and decodes them. Other libraries reach the generated protobuf code
// only by these functions. On the wire a message is one envelope frame (protobuf, proto/) followed by its
// payload frames, unchanged; a small payload travels inside the envelope, since a frame of its own costs more
// than its bytes. All functions are thread-safe.
#pragma once

#include <optional>

#include "base/result.h"
#include "wire/messages.h"

namespace sluice::wire {

// The size of the largest payload frame: the rows that one call sends to a part of a row-sparse
// key, or gets from it. A worker refuses a call that would need a larger frame. Parts of other keys
// have at most 1 MiB (plan::Placement).
inline constexpr size_t kMostFrameBytes = 8u << 20;

// The number of bytes with the version, with which an envelope of any version begins.
inline constexpr size_t kVersionBytes = 5;

// What is accepted from the network, from any sender.
struct Limits {
  size_t max_envelope_bytes = 16u << 20;
  size_t max_payload_frames = 4096;
  size_t max_frame_bytes = kMostFrameBytes;
  size_t max_message_bytes = 32u << 20;
  size_t max_parts = 65536;        // parts named in one message
  size_t max_keys = 65536;         // keys in one declaration
  size_t max_set_keys = 1u << 20;  // keys that one SetOptimizer names: multipliers, first rounds
  size_t max_stores = 65536;
  size_t max_nodes = 65536;
  size_t max_text_bytes = 64u << 10;  // a name, an address, an error text
};

// Returns the limits for messages from workers to a server's shard, which bring one frame of
// kMostFrameBytes or a batch of smaller ones.
Limits LimitsOfShards();

// A payload of at most this many bytes, all frames together, travels inside the envelope.
inline constexpr size_t kSmallPayload = 256;
bool IsPayloadInline(const Message& message);

// Returns the envelope frame of `message`, with the payload if that travels inside. The frame's bytes lie in
// `memory`. Another `version` has one use: to send a peer of that version an ErrorReply that says why it is
// refused (the header and ErrorReply are the same in every version).
Frame EncodeEnvelope(const Message& message, uint32_t version = kProtocolVersion,
                     const std::shared_ptr<Allocator>& memory = HeapAllocator());

// Returns the message of an envelope, with the payload if that travelled inside; its frames then lie in
// `memory`. Payload frames that follow the envelope are the caller's to add. Fails, and does not throw,
// for bytes that are wrong, and never allocates more than the limits allow. For another protocol
// version the failure names both versions.
Result<Message> DecodeEnvelope(Bytes bytes, const Limits& limits,
                               const std::shared_ptr<Allocator>& memory = HeapAllocator());

// The part of a header that can be read in any version, in order to answer a refused message. PeekHeader
// returns nullopt when the bytes are not an envelope.
struct Header {
  uint32_t version = 0;
  uint64_t job = 0;
  uint64_t id = 0;
  uint64_t in_reply_to = 0;
};
std::optional<Header> PeekHeader(Bytes bytes, const Limits& limits);

// Fails unless the number and the sizes of `message.payload` fit the body and the limits. Whether a frame
// fits its key and part is checked by the machine that knows the key.
Status ValidatePayload(const Message& message, const Limits& limits);

}  // namespace sluice::wire
