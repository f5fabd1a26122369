// Encodes and decodes Push, Pull, Values and Ack, the messages of a training step, without generated classes:
// for a small message those cost more than everything else that is done with it. The bytes are protobuf's
// (https://protobuf.dev/programming-guides/encoding/), the same as those of generated_codec.h, which takes
// over for everything unusual. Internal to wire/.
#pragma once

#include <optional>

#include "wire/codec.h"

namespace sluice::wire {

// As EncodeGenerated. Returns nullopt for messages of another kind, and for those that
// may exceed 4 KiB (about 150 parts).
std::optional<Frame> EncodeStep(const Message& message, uint32_t version,
                                const std::shared_ptr<Allocator>& memory);

// As DecodeGenerated, for the bytes after the version. Returns false for a message of another kind,
// for one in which anything is wrong, and for some forms that protobuf allows but no encoder
// writes; *out may be changed then.
bool DecodeStep(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory, Message* out);

}  // namespace sluice::wire
