// What must hold for any bytes that claim to be a message. Used by the fuzzer and, over its corpus, by a unit
// test.
#pragma once

#include "base/check.h"
#include "wire/packing.h"

namespace sluice::wire {

// Bytes are refused with a reason, or decode to a message that survives coding unchanged.
inline void CheckEnvelope(Bytes bytes) {
  const Limits limits;
  (void)PeekHeader(bytes, limits);
  const auto message = DecodeEnvelope(bytes, limits);
  if (!message.ok()) {
    SLUICE_CHECK(!message.failure().message.empty());
    return;
  }
  (void)Describe(message.value());
  (void)CheckPayload(message.value(), limits).ok();
  Message unpacked = message.value();
  (void)Unpack(&unpacked).ok();
  const Frame coded = EncodeEnvelope(message.value());
  const auto again = DecodeEnvelope(coded.bytes(), limits);
  SLUICE_CHECK(again.ok()) << again.failure().message;
  SLUICE_CHECK(again.value().body == message.value().body);
  SLUICE_CHECK(again.value().lent == message.value().lent);
  SLUICE_CHECK(again.value().packed == message.value().packed);
  SLUICE_CHECK(AsText(EncodeEnvelope(again.value()).bytes()) == AsText(coded.bytes()));
}

}  // namespace sluice::wire
