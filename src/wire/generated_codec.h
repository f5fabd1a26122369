// Encodes and decodes messages of every kind with the classes that protoc generates. Internal to wire/.
#pragma once

#include "wire/codec.h"

namespace sluice::wire {

// As EncodeEnvelope.
Frame EncodeGenerated(const Message& message, uint32_t version, const std::shared_ptr<Allocator>& memory);
// As DecodeEnvelope. `bytes` must begin with this version and be at most limits.max_envelope_bytes long.
Result<Message> DecodeGenerated(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory);

}  // namespace sluice::wire
