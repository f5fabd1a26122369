// Any message between structs and bytes, by way of the classes that protoc generates. Internal to wire/.
#pragma once

#include "wire/codec.h"

namespace sluice::wire {

// As EncodeEnvelope.
Frame EncodeGenerated(const Message& message, uint32_t version, const std::shared_ptr<Allocator>& memory);
// As DecodeEnvelope, of bytes that begin with this version and are not too many.
Result<Message> DecodeGenerated(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory);

}  // namespace sluice::wire
