// Encodes messages of a training step (step_codec.h) in one pass, from the end of a buffer on the stack
// to its beginning: the length of each nested message is then known when its tag is written. The buffer
// has 4 KiB; the largest size that a message can have is computed first, so that the writer checks no
// bounds. The bytes equal those of generated_codec.cc, which step_codec_test and the fuzzers check.
// Called by codec.cc, on any thread.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "envelope.pb.h"
#include "wire/convert.h"
#include "wire/inline_payload.h"
#include "wire/step_codec.h"

namespace sluice::wire {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// Writes protobuf fields from the end of its room to the beginning, so that every length is known when it is
// written. As in proto3, fields that are 0 are left out. The caller makes sure that the room suffices.
class BackwardWriter {
 public:
  explicit BackwardWriter(std::span<uint8_t> room) : at_(room.data() + room.size()) {}
  const uint8_t* at() const { return at_; }

  void Varint(uint64_t value) {
    if (value < 0x80) {
      *--at_ = static_cast<uint8_t>(value);
      return;
    }
    at_ -= CodedOutputStream::VarintSize64(value);
    CodedOutputStream::WriteVarint64ToArray(value, at_);
  }
  void Raw(Bytes bytes) {
    at_ -= bytes.size();
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
  }
  void NumberField(int field, uint64_t value) {
    if (value == 0) return;
    Varint(value);
    Tag(field, WireFormatLite::WIRETYPE_VARINT);
  }
  template <typename E>
  void EnumField(int field, E value) {
    NumberField(field, static_cast<uint64_t>(value) + 1);  // see EnumToWire
  }
  void Fixed32Field(int field, uint32_t value) {
    if (value == 0) return;
    at_ -= sizeof value;
    CodedOutputStream::WriteLittleEndian32ToArray(value, at_);
    Tag(field, WireFormatLite::WIRETYPE_FIXED32);
  }
  void Fixed64Field(int field, uint64_t value) {
    if (value == 0) return;
    at_ -= sizeof value;
    CodedOutputStream::WriteLittleEndian64ToArray(value, at_);
    Tag(field, WireFormatLite::WIRETYPE_FIXED64);
  }
  // Makes everything written since at() was `end` the content of `field`.
  void Enclose(int field, const uint8_t* end) {
    Varint(static_cast<uint64_t>(end - at_));
    Tag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  }

 private:
  void Tag(int field, WireFormatLite::WireType type) { Varint(WireFormatLite::MakeTag(field, type)); }

  uint8_t* at_;
};

// Calls `write` for the elements of `list`, from last to first.
void Backwards(const auto& list, auto&& write) {
  for (size_t i = list.size(); i > 0; --i) write(list[i - 1]);
}

// Writes packed numbers, one for each element.
void WriteNumbers(int field, const auto& list, auto&& value_of, BackwardWriter& out) {
  if (list.empty()) return;
  const uint8_t* end = out.at();
  Backwards(list, [&](const auto& element) { out.Varint(value_of(element)); });
  out.Enclose(field, end);
}

// As WriteNumbers, but writes nothing if all numbers are 0.
void WriteColumn(int field, const auto& list, auto&& value_of, BackwardWriter& out) {
  if (std::ranges::any_of(list, [&](const auto& element) { return value_of(element) != 0; }))
    WriteNumbers(field, list, value_of, out);
}

template <typename Part>
void WriteParts(int field, const PartList<Part>& parts, BackwardWriter& out) {
  const uint8_t* end = out.at();
  WriteColumn(
      pb::Parts::kVersionFieldNumber, parts, [](const Part& part) { return VersionOf(part); }, out);
  WriteColumn(
      pb::Parts::kSlotFieldNumber, parts, [](const Part& part) { return SlotOf(part); }, out);
  WriteColumn(
      pb::Parts::kPartFieldNumber, parts, [](const Part& part) { return part.ref.part; }, out);
  WriteNumbers(
      pb::Parts::kKeyFieldNumber, parts, [](const Part& part) { return part.ref.key; }, out);
  out.Enclose(field, end);
}

void WriteBody(const Push& push, BackwardWriter& out) {
  using Field = pb::Push;
  const uint8_t* end = out.at();
  out.NumberField(Field::kExponentFieldNumber, push.exponent);
  WriteColumn(
      Field::kWantValueFieldNumber, push.parts,
      [](const PushPart& part) { return uint64_t{part.want_value}; }, out);
  out.EnumField(Field::kValuesFieldNumber, push.values);
  out.EnumField(Field::kCompressionFieldNumber, push.compression);
  WriteParts(Field::kPartsFieldNumber, push.parts, out);
  out.Fixed64Field(Field::kDivisorFieldNumber, std::bit_cast<uint64_t>(push.divisor));
  out.NumberField(Field::kSamplesFieldNumber, push.samples);
  out.Enclose(pb::Envelope::kPushFieldNumber, end);
}

void WriteBody(const Pull& pull, BackwardWriter& out) {
  const uint8_t* end = out.at();
  out.EnumField(pb::Pull::kValuesFieldNumber, pull.values);
  WriteParts(pb::Pull::kPartsFieldNumber, pull.parts, out);
  out.EnumField(pb::Pull::kWantFieldNumber, pull.want);
  out.Enclose(pb::Envelope::kPullFieldNumber, end);
}

void WriteBody(const Values& values, BackwardWriter& out) {
  const uint8_t* end = out.at();
  out.EnumField(pb::Values::kCompressionFieldNumber, values.compression);
  WriteParts(pb::Values::kPartsFieldNumber, values.parts, out);
  out.NumberField(pb::Values::kContentFieldNumber,
                  values.has_data ? pb::Values::CONTENT_VALUES : pb::Values::CONTENT_VERSIONS);
  out.Enclose(pb::Envelope::kValuesFieldNumber, end);
}

void WriteBody(const Ack&, BackwardWriter& out) {
  out.Enclose(pb::Envelope::kAckFieldNumber, out.at());
}

void WriteLeased(const LeasedFrame& frame, BackwardWriter& out) {
  using Field = pb::LeasedFrame;
  const uint8_t* end = out.at();
  out.NumberField(Field::kLengthFieldNumber, frame.length);
  out.NumberField(Field::kOffsetFieldNumber, frame.offset);
  out.NumberField(Field::kSegmentFieldNumber, frame.segment);
  out.NumberField(Field::kLeaseFieldNumber, frame.lease);
  out.NumberField(Field::kIndexFieldNumber, frame.index);
  out.Enclose(pb::Envelope::kLeasedPayloadFieldNumber, end);
}

void WritePayload(const Message& message, BackwardWriter& out) {
  WriteNumbers(pb::Envelope::kPackedPayloadFieldNumber, message.packed, std::identity(), out);
  Backwards(message.leased, [&](const LeasedFrame& frame) { WriteLeased(frame, out); });
  if (!IsPayloadInline(message)) return;
  Backwards(message.payload, [&](const Frame& frame) {
    const uint8_t* end = out.at();
    out.Raw(frame.bytes());
    out.Enclose(pb::Envelope::kSmallPayloadFieldNumber, end);
  });
}

void WriteHeader(const Message& message, uint32_t version, BackwardWriter& out) {
  using Field = pb::Envelope;
  out.NumberField(Field::kEpochFieldNumber, message.epoch);
  out.Fixed64Field(Field::kTraceIdFieldNumber, message.trace_id);
  out.NumberField(Field::kInReplyToFieldNumber, message.in_reply_to);
  out.NumberField(Field::kIdFieldNumber, message.id);
  const uint8_t* end = out.at();
  out.Fixed64Field(pb::Sender::kIncarnationFieldNumber, message.sender.incarnation);
  out.NumberField(pb::Sender::kRankFieldNumber, message.sender.rank);
  out.EnumField(pb::Sender::kRoleFieldNumber, message.sender.role);
  out.Enclose(Field::kSenderFieldNumber, end);
  out.Fixed64Field(Field::kJobFieldNumber, message.job);
  out.Fixed32Field(Field::kVersionFieldNumber, version);
}

// The upper bound of a message's size, with the widest number in every field.
constexpr size_t kFixedBytes = 160;  // header: 75; body without parts: at most 55; tags and lengths included
constexpr size_t kBytesOfPart = 26;  // key, part and slot: 5 each; version: 10; want_value: 1
constexpr size_t kBytesOfLeased = 53, kBytesOfPacked = 5;
constexpr size_t kBytesOfInside = 3;  // tag and length of a payload frame inside
size_t MostBytes(const Message& message, size_t parts) {
  const size_t inside = IsPayloadInline(message) ? message.payload.size() : 0;
  return kFixedBytes + kBytesOfPart * parts + kBytesOfLeased * message.leased.size() +
         kBytesOfPacked * message.packed.size() + kBytesOfInside * inside + (inside > 0 ? kSmallPayload : 0);
}

constexpr size_t kRoom = 4096;  // enough for messages of about 150 parts

template <typename T>
std::optional<Frame> Encode(const Message& message, const T& body, size_t parts, uint32_t version,
                            const std::shared_ptr<Allocator>& memory) {
  if (MostBytes(message, parts) > kRoom) return std::nullopt;
  uint8_t room[kRoom];
  BackwardWriter out(room);
  WriteBody(body, out);
  WritePayload(message, out);
  WriteHeader(message, version, out);
  const Bytes written = std::as_bytes(std::span(out.at(), room + kRoom));
  const Block block = TakeBlock(written.size(), memory);
  std::memcpy(block.get(), written.data(), written.size());
  return Frame(Bytes(block.get(), written.size()), block);
}

}  // namespace

std::optional<Frame> EncodeStep(const Message& message, uint32_t version,
                                const std::shared_ptr<Allocator>& memory) {
  if (const auto* push = std::get_if<Push>(&message.body))
    return Encode(message, *push, push->parts.size(), version, memory);
  if (const auto* pull = std::get_if<Pull>(&message.body))
    return Encode(message, *pull, pull->parts.size(), version, memory);
  if (const auto* values = std::get_if<Values>(&message.body))
    return Encode(message, *values, values->parts.size(), version, memory);
  if (const auto* ack = std::get_if<Ack>(&message.body)) return Encode(message, *ack, 0, version, memory);
  return std::nullopt;
}

}  // namespace sluice::wire
