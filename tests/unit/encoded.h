// Encodes an envelope as text, for tests that compare or change its bytes.
#pragma once

#include <string>

#include "wire/codec.h"

namespace sluice::testing {

inline std::string Encoded(const wire::Message& message, uint32_t version = wire::kProtocolVersion) {
  return std::string(AsText(wire::EncodeEnvelope(message, version).bytes()));
}

}  // namespace sluice::testing
