// Decodes messages of a training step (step_codec.h) without protobuf's classes. It accepts the usual forms
// alone: a field of another kind, a message or column that comes twice, or a number out of range makes
// DecodeStep return false, and generated_codec.cc then decodes the message or says what is wrong. So nothing
// that is refused here needs a reason. The bytes are untrusted: every read is bounded by the end, and counts
// by Limits. Called by codec.cc, on any thread.
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "envelope.pb.h"
#include "wire/inline_payload.h"
#include "wire/step_codec.h"

namespace sluice::wire {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr auto kVarint = WireFormatLite::WIRETYPE_VARINT;
constexpr auto kFixed32 = WireFormatLite::WIRETYPE_FIXED32;
constexpr auto kFixed64 = WireFormatLite::WIRETYPE_FIXED64;
constexpr auto kBytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

constexpr uint32_t Tag(int field, WireFormatLite::WireType type) {
  return WireFormatLite::MakeTag(field, type);
}

// Reads the bytes of one protobuf message from front to back. Its methods return false when the bytes end too
// early, or when a number is too large for its field.
class Reader {
 public:
  explicit Reader(Bytes bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool AtEnd() const { return at_ == end_; }

  bool Varint(uint64_t* out) {
    if (at_ != end_ && *at_ < std::byte{0x80}) {
      *out = static_cast<uint64_t>(*at_++);
      return true;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; at_ != end_ && shift < 64; shift += 7) {
      const auto byte = static_cast<uint64_t>(*at_++);
      if (shift == 63 && byte > 1) return false;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        *out = value;
        return true;
      }
    }
    return false;
  }
  bool Varint(uint32_t* out) {
    uint64_t value = 0;
    if (!Varint(&value) || value > std::numeric_limits<uint32_t>::max()) return false;
    *out = static_cast<uint32_t>(value);
    return true;
  }
  bool Varint(bool* out) {
    uint64_t value = 0;
    if (!Varint(&value) || value > 1) return false;
    *out = value == 1;
    return true;
  }
  // Enumerator n travels as n + 1: see Checker::Enum.
  template <typename E>
  bool Enum(E last, E* out) {
    uint64_t value = 0;
    if (!Varint(&value) || value < 1 || value > static_cast<uint64_t>(last) + 1) return false;
    *out = static_cast<E>(value - 1);
    return true;
  }
  bool Fixed64(uint64_t* out) {
    static_assert(std::endian::native == std::endian::little);
    if (static_cast<size_t>(end_ - at_) < sizeof *out) return false;
    std::memcpy(out, at_, sizeof *out);
    at_ += sizeof *out;
    return true;
  }
  // Reads a tag or a length, which protobuf allows at most five bytes.
  bool Short(uint32_t* out) {
    const std::byte* const begin = at_;
    return Varint(out) && at_ - begin <= 5;
  }
  bool Content(Bytes* out) {
    uint32_t size = 0;
    if (!Short(&size) || size > static_cast<size_t>(end_ - at_)) return false;
    *out = Bytes(at_, size);
    at_ += size;
    return true;
  }
  // As Content, for a field that may come only once: false if `out` is set already.
  bool ContentOnce(Bytes* out) { return out->data() == nullptr && Content(out); }

 private:
  const std::byte* at_;
  const std::byte* const end_;
};

// Calls `on_field(tag, reader)`, which reads the field's value, for each field. Returns false as soon as
// `on_field` does, or when a tag is wrong.
bool ForEachField(Bytes message, auto&& on_field) {
  Reader in(message);
  while (!in.AtEnd()) {
    uint32_t tag = 0;
    if (!in.Short(&tag) || !on_field(tag, in)) return false;
  }
  return true;
}

struct Columns {
  Bytes key, part, slot, version;
};

bool ReadColumns(Bytes parts, Columns* out) {
  using Field = pb::Parts;
  return ForEachField(parts, [out](uint32_t tag, Reader& in) {
    switch (tag) {
      case Tag(Field::kKeyFieldNumber, kBytes):
        return in.ContentOnce(&out->key);
      case Tag(Field::kPartFieldNumber, kBytes):
        return in.ContentOnce(&out->part);
      case Tag(Field::kSlotFieldNumber, kBytes):
        return in.ContentOnce(&out->slot);
      case Tag(Field::kVersionFieldNumber, kBytes):
        return in.ContentOnce(&out->version);
      default:
        return false;
    }
  });
}

// Reads a column, with one number for every part, into `place_of(part)`. An empty
// column leaves the parts unchanged.
template <typename Part>
bool ReadColumn(Bytes column, PartList<Part>* parts, auto&& place_of) {
  if (column.empty()) return true;
  Reader in(column);
  for (Part& part : *parts) {
    if (!in.Varint(place_of(part))) return false;
  }
  return in.AtEnd();
}

// Reads the keys, which also say how many parts there are, and the part numbers.
// The caller reads the other columns.
template <typename Part>
bool ReadRefs(const Columns& columns, const Limits& limits, PartList<Part>* out) {
  for (Reader in(columns.key); !in.AtEnd();) {
    if (out->size() == limits.max_parts || !in.Varint(&out->emplace_back().ref.key)) return false;
  }
  return ReadColumn(columns.part, out, [](Part& part) { return &part.ref.part; });
}

bool ReadBody(Bytes body, const Limits& limits, Push* out) {
  using Field = pb::Push;
  Bytes parts, want_value;
  bool has_compression = false, has_values = false;
  uint64_t divisor = 0;
  const bool read = ForEachField(body, [&](uint32_t tag, Reader& in) {
    switch (tag) {
      case Tag(Field::kSamplesFieldNumber, kVarint):
        return in.Varint(&out->samples);
      case Tag(Field::kDivisorFieldNumber, kFixed64):
        return in.Fixed64(&divisor);
      case Tag(Field::kPartsFieldNumber, kBytes):
        return in.ContentOnce(&parts);
      case Tag(Field::kCompressionFieldNumber, kVarint):
        return has_compression = in.Enum(Compression::kTopK, &out->compression);
      case Tag(Field::kValuesFieldNumber, kVarint):
        return has_values = in.Enum(Compression::kTopK, &out->values);
      case Tag(Field::kWantValueFieldNumber, kBytes):
        return in.ContentOnce(&want_value);
      case Tag(Field::kExponentFieldNumber, kVarint):
        return in.Varint(&out->exponent);
      default:
        return false;
    }
  });
  out->divisor = std::bit_cast<double>(divisor);
  Columns columns;
  return read && has_compression && has_values && std::isfinite(out->divisor) && out->divisor != 0 &&
         ReadColumns(parts, &columns) && columns.slot.empty() && ReadRefs(columns, limits, &out->parts) &&
         ReadColumn(columns.version, &out->parts, [](PushPart& part) { return &part.round; }) &&
         ReadColumn(want_value, &out->parts, [](PushPart& part) { return &part.want_value; });
}

bool ReadBody(Bytes body, const Limits& limits, Pull* out) {
  using Field = pb::Pull;
  Bytes parts;
  bool has_want = false, has_values = false;
  const bool read = ForEachField(body, [&](uint32_t tag, Reader& in) {
    switch (tag) {
      case Tag(Field::kWantFieldNumber, kVarint):
        return has_want = in.Enum(Pull::Want::kSet, &out->want);
      case Tag(Field::kPartsFieldNumber, kBytes):
        return in.ContentOnce(&parts);
      case Tag(Field::kValuesFieldNumber, kVarint):
        return has_values = in.Enum(Compression::kTopK, &out->values);
      default:
        return false;
    }
  });
  Columns columns;
  return read && has_want && has_values && ReadColumns(parts, &columns) &&
         ReadRefs(columns, limits, &out->parts) &&
         ReadColumn(columns.slot, &out->parts, [](PullPart& part) { return &part.slot; }) &&
         ReadColumn(columns.version, &out->parts, [](PullPart& part) { return &part.min_version; });
}

bool ReadBody(Bytes body, const Limits& limits, Values* out) {
  using Field = pb::Values;
  Bytes parts;
  uint64_t content = 0;
  bool has_compression = false;
  const bool read = ForEachField(body, [&](uint32_t tag, Reader& in) {
    switch (tag) {
      case Tag(Field::kContentFieldNumber, kVarint):
        return in.Varint(&content);
      case Tag(Field::kPartsFieldNumber, kBytes):
        return in.ContentOnce(&parts);
      case Tag(Field::kCompressionFieldNumber, kVarint):
        return has_compression = in.Enum(Compression::kTopK, &out->compression);
      default:
        return false;
    }
  });
  out->has_data = content == Field::CONTENT_VALUES;
  Columns columns;
  return read && has_compression && (out->has_data || content == Field::CONTENT_VERSIONS) &&
         ReadColumns(parts, &columns) && ReadRefs(columns, limits, &out->parts) &&
         ReadColumn(columns.slot, &out->parts, [](ValuePart& part) { return &part.slot; }) &&
         ReadColumn(columns.version, &out->parts, [](ValuePart& part) { return &part.version; });
}

bool ReadBody(Bytes body, const Limits&, Ack*) {
  return body.empty();
}

bool ReadSender(Bytes sender, Sender* out) {
  using Field = pb::Sender;
  bool has_role = false;
  return ForEachField(sender,
                      [&](uint32_t tag, Reader& in) {
                        switch (tag) {
                          case Tag(Field::kRoleFieldNumber, kVarint):
                            return has_role = in.Enum(Role::kWorker, &out->role);
                          case Tag(Field::kRankFieldNumber, kVarint):
                            return in.Varint(&out->rank);
                          case Tag(Field::kIncarnationFieldNumber, kFixed64):
                            return in.Fixed64(&out->incarnation);
                          default:
                            return false;
                        }
                      }) &&
         has_role;
}

bool ReadLeased(Bytes leased, const Limits& limits, LeasedFrames* out) {
  using Field = pb::LeasedFrame;
  LeasedFrame frame;
  const bool read = ForEachField(leased, [&frame](uint32_t tag, Reader& in) {
    switch (tag) {
      case Tag(Field::kIndexFieldNumber, kVarint):
        return in.Varint(&frame.index);
      case Tag(Field::kLeaseFieldNumber, kVarint):
        return in.Varint(&frame.lease);
      case Tag(Field::kSegmentFieldNumber, kVarint):
        return in.Varint(&frame.segment);
      case Tag(Field::kOffsetFieldNumber, kVarint):
        return in.Varint(&frame.offset);
      case Tag(Field::kLengthFieldNumber, kVarint):
        return in.Varint(&frame.length);
      default:
        return false;
    }
  });
  if (!read || frame.index >= limits.max_payload_frames || frame.length > limits.max_frame_bytes ||
      (!out->empty() && frame.index <= out->back().index)) {
    return false;
  }
  out->push_back(frame);
  return true;
}

bool ReadPacked(Bytes sizes, const Limits& limits, PartList<uint32_t>* out) {
  if (sizes.empty() || !out->empty()) return false;
  for (Reader in(sizes); !in.AtEnd();) {
    if (out->size() == limits.max_payload_frames || !in.Varint(&out->emplace_back())) return false;
  }
  return true;
}

// Reads the fields of an envelope into a message. The sender and payload frames inside are kept as bytes, and
// decoded once all fields were read.
class EnvelopeReader {
 public:
  EnvelopeReader(const Limits& limits, Message* out) : limits_(limits), out_(out) {}

  bool Read(Bytes envelope) {
    return ForEachField(envelope, [this](uint32_t tag, Reader& in) { return Field(tag, in); }) &&
           sender_.data() != nullptr && has_body_ && ReadSender(sender_, &out_->sender);
  }
  const PartList<Bytes>& inside() const { return inside_; }

 private:
  using Envelope = pb::Envelope;

  bool Field(uint32_t tag, Reader& in) {
    Bytes content;
    switch (tag) {
      case Tag(Envelope::kJobFieldNumber, kFixed64):
        return in.Fixed64(&out_->job);
      case Tag(Envelope::kSenderFieldNumber, kBytes):
        return in.ContentOnce(&sender_);
      case Tag(Envelope::kIdFieldNumber, kVarint):
        return in.Varint(&out_->id);
      case Tag(Envelope::kInReplyToFieldNumber, kVarint):
        return in.Varint(&out_->in_reply_to);
      case Tag(Envelope::kTraceIdFieldNumber, kFixed64):
        return in.Fixed64(&out_->trace_id);
      case Tag(Envelope::kEpochFieldNumber, kVarint):
        return in.Varint(&out_->epoch);
      case Tag(Envelope::kSmallPayloadFieldNumber, kBytes):
        return in.Content(&content) && KeepInside(content);
      case Tag(Envelope::kLeasedPayloadFieldNumber, kBytes):
        return in.Content(&content) && ReadLeased(content, limits_, &out_->leased);
      case Tag(Envelope::kPackedPayloadFieldNumber, kBytes):
        return in.Content(&content) && ReadPacked(content, limits_, &out_->packed);
      case Tag(Envelope::kPushFieldNumber, kBytes):
        return ReadBodyAs<Push>(in);
      case Tag(Envelope::kPullFieldNumber, kBytes):
        return ReadBodyAs<Pull>(in);
      case Tag(Envelope::kValuesFieldNumber, kBytes):
        return ReadBodyAs<Values>(in);
      case Tag(Envelope::kAckFieldNumber, kBytes):
        return ReadBodyAs<Ack>(in);
      default:
        return false;
    }
  }

  bool KeepInside(Bytes frame) {
    inside_bytes_ += frame.size();
    if (inside_.size() == kSmallPayload || inside_bytes_ > kSmallPayload) return false;
    inside_.push_back(frame);
    return true;
  }

  template <typename T>
  bool ReadBodyAs(Reader& in) {
    Bytes content;
    if (has_body_ || !in.Content(&content)) return false;
    has_body_ = true;
    return ReadBody(content, limits_, &out_->body.emplace<T>());
  }

  const Limits& limits_;
  Message* const out_;
  Bytes sender_;
  bool has_body_ = false;
  PartList<Bytes> inside_;
  size_t inside_bytes_ = 0;
};

}  // namespace

bool DecodeStep(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory, Message* out) {
  EnvelopeReader reader(limits, out);
  if (!reader.Read(bytes)) return false;
  if (!reader.inside().empty()) out->payload = CopyInlinePayload(reader.inside(), memory);
  return true;
}

}  // namespace sluice::wire
