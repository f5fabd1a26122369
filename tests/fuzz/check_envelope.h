// Checks that hold for any bytes received as a message. A fuzzer runs them, and replay_test.cc does over the
// corpus.
#pragma once

#include "base/check.h"
#include "wire/generated_codec.h"
#include "wire/packing.h"
#include "wire/step_codec.h"

namespace sluice::wire {

// Checks that the step codec and the generated classes agree: if the step codec decodes the bytes, the
// generated classes decode them to the same message, and both encode that message to the same bytes.
inline void CheckStepCodec(Bytes bytes, const Limits& limits) {
  Message step;
  if (!AsText(bytes).starts_with(std::string_view("\x0d\x01\0\0\0", kVersionBytes)) ||
      !DecodeStep(bytes.subspan(kVersionBytes), limits, HeapAllocator(), &step))
    return;
  const auto generated = DecodeGenerated(bytes, limits, HeapAllocator());
  SLUICE_CHECK(generated.ok()) << generated.failure().message;
  const auto coded = [](const Message& message) {
    return EncodeGenerated(message, kProtocolVersion, HeapAllocator());
  };
  SLUICE_CHECK(AsText(coded(step).bytes()) == AsText(coded(generated.value()).bytes()));
  if (const auto written = EncodeStep(step, kProtocolVersion, HeapAllocator()))
    SLUICE_CHECK(AsText(written->bytes()) == AsText(coded(step).bytes()));
}

// Checks that the bytes are refused with a reason, or decode to a message that encoding and decoding leave
// unchanged.
inline void CheckEnvelope(Bytes bytes) {
  const Limits limits;
  CheckStepCodec(bytes, limits);
  (void)PeekHeader(bytes, limits);
  const auto message = DecodeEnvelope(bytes, limits);
  if (!message.ok()) {
    SLUICE_CHECK(!message.failure().message.empty());
    return;
  }
  (void)Describe(message.value());
  (void)ValidatePayload(message.value(), limits).ok();
  Message unpacked = message.value();
  (void)Unpack(&unpacked).ok();
  const Frame coded = EncodeEnvelope(message.value());
  const auto again = DecodeEnvelope(coded.bytes(), limits);
  SLUICE_CHECK(again.ok()) << again.failure().message;
  SLUICE_CHECK(again.value().body == message.value().body);
  SLUICE_CHECK(again.value().leased == message.value().leased);
  SLUICE_CHECK(again.value().packed == message.value().packed);
  SLUICE_CHECK(AsText(EncodeEnvelope(again.value()).bytes()) == AsText(coded.bytes()));
}

}  // namespace sluice::wire
