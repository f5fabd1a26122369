// Pushes, pulls, values and acknowledgements between structs and bytes, without generated classes: what the
// steps of a training consist of, and where those classes cost a small message more than all else that is
// done with it. The bytes are protobuf's (https://protobuf.dev/programming-guides/encoding/) and the same as
// generated_codec.h's, which whatever is unusual is left to. Internal to wire/.
#pragma once

#include <optional>

#include "wire/codec.h"

namespace sluice::wire {

// As EncodeGenerated. nullopt: of another kind, or longer than some 150 parts make it.
std::optional<Frame> EncodeStep(const Message& message, uint32_t version,
                                const std::shared_ptr<Allocator>& memory);

// As DecodeGenerated, of the bytes behind the version. False where a message is of another kind, where
// anything in it is wrong, and of some forms that protobuf allows and nobody writes; *out may have been
// changed then.
bool DecodeStep(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory, Message* out);

}  // namespace sluice::wire
