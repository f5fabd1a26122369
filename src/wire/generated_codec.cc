// Encodes and decodes messages of every kind with protobuf's classes, which live in an arena for the length
// of one call. It handles all that step_codec.h leaves: other kinds of messages, long ones, and unusual or
// wrong bytes, whose failure it explains. The bytes are untrusted: the elements of a large envelope are
// counted before protobuf allocates any, and the converters (convert.h) check each field. Called by
// codec.cc, on any thread; no state.
#include "wire/generated_codec.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "envelope.pb.h"
#include "wire/convert.h"
#include "wire/inline_payload.h"

namespace sluice::wire {
namespace {

using google::protobuf::Arena;
using google::protobuf::ArenaOptions;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The size of the arena's first block, on the stack. Most messages fit it, so that coding them
// allocates nothing but the result.
constexpr size_t kArenaBlock = 2048;

ArenaOptions OnStack(char* block) {
  ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = kArenaBlock;
  return options;
}

// Envelopes up to this size are not counted: their elements cannot take much memory.
constexpr size_t kUncountedBytes = 64 << 10;

// Counts strings, messages and packed lists before any of them is allocated: an empty one takes
// two bytes on the wire, but dozens in memory. Returns false when there are more than `*left`, or
// when the bytes are not well-formed.
bool CountElements(CodedInputStream& in, const Descriptor& type, size_t* left) {
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    int length = 0;
    if ((*left)-- == 0 || !in.ReadVarintSizeAsInt(&length)) return false;
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr || field->message_type() == nullptr) {
      if (!in.Skip(length)) return false;
      continue;
    }
    const auto limit = in.PushLimit(length);
    if (!CountElements(in, *field->message_type(), left) || in.BytesUntilLimit() != 0) return false;
    in.PopLimit(limit);
  }
  return true;
}

bool FewElements(Bytes bytes, const Limits& limits) {
  if (bytes.size() <= kUncountedBytes) return true;
  constexpr size_t kPerItem = 32;  // elements allowed per key, node or part; they have far fewer
  size_t left = kPerItem * std::max({limits.max_parts, limits.max_keys, limits.max_nodes});
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  return CountElements(in, *pb::Envelope::descriptor(), &left);
}

void HeaderToWire(const Message& message, uint32_t version, pb::Envelope* out) {
  out->set_version(version);
  out->set_job(message.job);
  pb::Sender* sender = out->mutable_sender();
  sender->set_role(EnumToWire<pb::Role>(message.sender.role));
  sender->set_rank(message.sender.rank);
  sender->set_incarnation(message.sender.incarnation);
  out->set_id(message.id);
  out->set_in_reply_to(message.in_reply_to);
  out->set_trace_id(message.trace_id);
  out->set_epoch(message.epoch);
}

void LeasedFramesToWire(const LeasedFrames& leased, pb::Envelope* out) {
  for (const LeasedFrame& frame : leased) {
    pb::LeasedFrame* written = out->add_leased_payload();
    written->set_index(frame.index);
    written->set_lease(frame.lease);
    written->set_segment(frame.segment);
    written->set_offset(frame.offset);
    written->set_length(frame.length);
  }
}

// Checks the order and the lengths of leased frames. The transport that maps the
// memory checks where they lie.
bool LeasedFromWire(const pb::Envelope& envelope, Checker& checker, LeasedFrames* out) {
  const Limits& limits = checker.limits();
  const auto count = static_cast<size_t>(envelope.leased_payload_size());
  if (!checker.Count(count, limits.max_payload_frames, "leased payload frames")) return false;
  out->reserve(count);
  for (const pb::LeasedFrame& frame : envelope.leased_payload()) {
    if (frame.index() >= limits.max_payload_frames || (!out->empty() && frame.index() <= out->back().index))
      return checker.Reject("leased payload frame ", frame.index(), " is out of order");
    if (frame.length() > limits.max_frame_bytes)
      return checker.Reject("a leased payload frame has ", frame.length(), " bytes; at most ",
                            limits.max_frame_bytes, " are accepted");
    out->push_back({frame.index(), frame.lease(), frame.segment(), frame.offset(), frame.length()});
  }
  return true;
}

bool PackedFromWire(const pb::Envelope& envelope, Checker& checker, PartList<uint32_t>* out) {
  const auto count = static_cast<size_t>(envelope.packed_payload_size());
  if (!checker.Count(count, checker.limits().max_payload_frames, "packed payload frames")) return false;
  out->reserve(count);
  for (const uint32_t size : envelope.packed_payload()) out->push_back(size);
  return true;
}

}  // namespace

Frame EncodeGenerated(const Message& message, uint32_t version, const std::shared_ptr<Allocator>& memory) {
  alignas(8) char arena_block[kArenaBlock];
  Arena arena(OnStack(arena_block));
  auto* envelope = Arena::CreateMessage<pb::Envelope>(&arena);
  HeaderToWire(message, version, envelope);
  if (IsPayloadInline(message)) {
    for (const Frame& frame : message.payload) envelope->add_small_payload(frame.data(), frame.size());
  }
  LeasedFramesToWire(message.leased, envelope);
  for (const uint32_t size : message.packed) envelope->add_packed_payload(size);
  BodyToWire(message.body, envelope);
  const size_t size = envelope->ByteSizeLong();
  const Block block = TakeBlock(size, memory);
  envelope->SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(block.get()));
  return Frame(Bytes(block.get(), size), block);
}

Result<Message> DecodeGenerated(Bytes bytes, const Limits& limits, const std::shared_ptr<Allocator>& memory) {
  if (!FewElements(bytes, limits)) {
    return Fail(ErrorCode::kResourceExhausted, "envelope of ", bytes.size(), " bytes has too many elements");
  }
  alignas(8) char block[kArenaBlock];
  Arena arena(OnStack(block));
  auto* envelope = Arena::CreateMessage<pb::Envelope>(&arena);
  if (!envelope->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Fail(ErrorCode::kDataLoss, "envelope of ", bytes.size(), " bytes cannot be parsed");
  }
  Checker checker(limits);
  Message message;
  message.job = envelope->job();
  message.sender.rank = envelope->sender().rank();
  message.sender.incarnation = envelope->sender().incarnation();
  message.id = envelope->id();
  message.in_reply_to = envelope->in_reply_to();
  message.trace_id = envelope->trace_id();
  message.epoch = envelope->epoch();
  if (!checker.Enum(envelope->sender().role(), Role::kWorker, "the sender's role", &message.sender.role) ||
      !BodyFromWire(*envelope, checker, &message.body) ||
      !LeasedFromWire(*envelope, checker, &message.leased) ||
      !PackedFromWire(*envelope, checker, &message.packed)) {
    return Fail(ErrorCode::kInvalidArgument, BodyName(message.body), " refused: ", checker.why());
  }
  if (envelope->small_payload_size() == 0) return message;
  size_t total = 0;
  for (const std::string& data : envelope->small_payload()) total += data.size();
  if (total > kSmallPayload || static_cast<size_t>(envelope->small_payload_size()) > kSmallPayload) {
    return Fail(ErrorCode::kInvalidArgument, BodyName(message.body), " has ", total, " bytes in ",
                envelope->small_payload_size(), " frames inside its envelope; at most ", kSmallPayload,
                " may be there");
  }
  PartList<Bytes> inside;
  for (const std::string& data : envelope->small_payload()) inside.push_back(AsBytes(data));
  message.payload = CopyInlinePayload(inside, memory);
  return message;
}

}  // namespace sluice::wire
