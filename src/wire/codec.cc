// Entry points of the codec, for the transports' loops (transport/zmq, transport/sim), on the loop's thread.
// The version is checked before anything else; then messages of a training step are coded by hand
// (step_codec.h), and all others, and all that the first way refuses, by protobuf's classes
// (generated_codec.h). Both write the same bytes. Bytes from the network are untrusted: failures are
// returned, and no allocation exceeds the limits.
#include "wire/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "envelope.pb.h"
#include "wire/generated_codec.h"
#include "wire/step_codec.h"

namespace sluice::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::byte kVersionTag{0x0d};

bool ReadVersion(Bytes bytes, uint32_t* version) {
  if (bytes.size() < kVersionBytes || bytes[0] != kVersionTag) return false;
  *version = 0;
  for (size_t i = kVersionBytes - 1; i >= 1; --i) *version = *version << 8 | static_cast<uint32_t>(bytes[i]);
  return true;
}

// Decodes an envelope of this version. There is one variable to return, so that it is
// constructed in the caller's without a move.
Result<Message> Decode(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory) {
  Result<Message> message(std::in_place);
  if (!DecodeStep(bytes.subspan(kVersionBytes), limits, memory, &message.value()))
    message = DecodeGenerated(bytes, limits, memory);
  return message;
}

}  // namespace

Limits LimitsOfShards() {
  Limits limits;
  limits.max_envelope_bytes = 2u << 20;
  limits.max_message_bytes = kMostFrameBytes + (1u << 20);
  return limits;
}

bool IsPayloadInline(const Message& message) {
  return !message.payload.empty() && message.payload.size() <= kSmallPayload &&
         PayloadBytes(message) <= kSmallPayload;
}

Frame EncodeEnvelope(const Message& message, uint32_t version, const std::shared_ptr<Allocator>& memory) {
  if (auto frame = EncodeStep(message, version, memory)) return *std::move(frame);
  return EncodeGenerated(message, version, memory);
}

Result<Message> DecodeEnvelope(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory) {
  if (bytes.size() > limits.max_envelope_bytes) {
    return Fail(ErrorCode::kResourceExhausted, "envelope of ", bytes.size(), " bytes; at most ",
                limits.max_envelope_bytes, " are accepted");
  }
  uint32_t version = 0;
  if (!ReadVersion(bytes, &version)) {
    return Fail(ErrorCode::kDataLoss, "not an envelope: ", bytes.size(),
                " bytes that do not begin with a version");
  }
  if (version != kProtocolVersion) {
    return Fail(ErrorCode::kFailedPrecondition, "the peer speaks protocol version ", version,
                ", this process speaks version ", kProtocolVersion,
                ": run the same release of Sluice everywhere");
  }
  return Decode(bytes, limits, memory);
}

std::optional<Header> PeekHeader(Bytes bytes, const Limits& limits) {
  Header header;
  if (bytes.size() > limits.max_envelope_bytes || !ReadVersion(bytes, &header.version)) return std::nullopt;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (const uint32_t tag = in.ReadTag()) {
    using Field = pb::Envelope;
    const auto is = [tag](int field, WireFormatLite::WireType type) {
      return tag == WireFormatLite::MakeTag(field, type);
    };
    google::protobuf::uint64 value = 0;
    if (is(Field::kJobFieldNumber, WireFormatLite::WIRETYPE_FIXED64)) {
      if (!in.ReadLittleEndian64(&value)) return std::nullopt;
      header.job = value;
    } else if (is(Field::kIdFieldNumber, WireFormatLite::WIRETYPE_VARINT)) {
      if (!in.ReadVarint64(&value)) return std::nullopt;
      header.id = value;
    } else if (is(Field::kInReplyToFieldNumber, WireFormatLite::WIRETYPE_VARINT)) {
      if (!in.ReadVarint64(&value)) return std::nullopt;
      header.in_reply_to = value;
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      return std::nullopt;
    }
  }
  return header;
}

Status ValidatePayload(const Message& message, const Limits& limits) {
  size_t expected = 0;
  if (const auto* push = std::get_if<Push>(&message.body)) {
    expected = push->parts.size();
  } else if (const auto* store = std::get_if<Store>(&message.body)) {
    expected = store->parts.size();
  } else if (const auto* rows = std::get_if<PullRows>(&message.body)) {
    expected = rows->parts.size();
  } else if (const auto* values = std::get_if<Values>(&message.body)) {
    expected = values->has_data ? values->parts.size() : 0;
  }
  const size_t frames = message.payload.size();
  if (frames != expected) {
    return Fail(ErrorCode::kInvalidArgument, BodyName(message.body), " came with ", frames,
                " payload frames; ", expected, " belong to it");
  }
  if (frames > limits.max_payload_frames) {
    return Fail(ErrorCode::kResourceExhausted, BodyName(message.body), " has ", frames,
                " payload frames; at most ", limits.max_payload_frames, " are accepted");
  }
  uint64_t bytes = 0;
  for (const Frame& frame : message.payload) {
    bytes += frame.size();
    if (frame.size() > limits.max_frame_bytes || bytes > limits.max_message_bytes) {
      return Fail(ErrorCode::kResourceExhausted, BodyName(message.body), " has a frame of ",
                  HumanBytes(frame.size()), " and ", HumanBytes(bytes), " so far; at most ",
                  HumanBytes(limits.max_frame_bytes), " and ", HumanBytes(limits.max_message_bytes),
                  " are accepted");
    }
  }
  return Status::Ok();
}

}  // namespace sluice::wire
