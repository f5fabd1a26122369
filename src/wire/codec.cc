#include "wire/codec.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstring>

#include "envelope.pb.h"
#include "wire/convert.h"

namespace sluice::wire {
namespace {

using google::protobuf::Arena;
using google::protobuf::ArenaOptions;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Most messages fit the arena's first block, so that coding them allocates nothing but the result.
constexpr size_t kArenaBlock = 2048;

ArenaOptions OnStack(char* block) {
  ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = kArenaBlock;
  return options;
}

// The five bytes that every version begins with.
constexpr size_t kVersionBytes = 5;
constexpr std::byte kVersionTag{0x0d};

bool ReadVersion(Bytes bytes, uint32_t* version) {
  if (bytes.size() < kVersionBytes || bytes[0] != kVersionTag) return false;
  *version = 0;
  for (size_t i = kVersionBytes - 1; i >= 1; --i) *version = *version << 8 | static_cast<uint32_t>(bytes[i]);
  return true;
}

// Small envelopes cannot hold enough to hurt.
constexpr size_t kUncountedBytes = 64 << 10;

// Counts strings, messages and packed lists before any of them is allocated: an empty one takes two bytes on
// the wire, but dozens in memory. False when there are more than `*left`, or when the bytes are not well
// formed.
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
  constexpr size_t kPerItem = 32;  // what a key or a node may consist of, generously
  size_t left = kPerItem * std::max({limits.max_parts, limits.max_keys, limits.max_nodes});
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  return CountElements(in, *pb::Envelope::descriptor(), &left);
}

pb::Register* Mutable(pb::Envelope* e, const Register&) {
  return e->mutable_register_node();
}
pb::Welcome* Mutable(pb::Envelope* e, const Welcome&) {
  return e->mutable_welcome();
}
pb::Heartbeat* Mutable(pb::Envelope* e, const Heartbeat&) {
  return e->mutable_heartbeat();
}
pb::HeartbeatAck* Mutable(pb::Envelope* e, const HeartbeatAck&) {
  return e->mutable_heartbeat_ack();
}
pb::GetMembership* Mutable(pb::Envelope* e, const GetMembership&) {
  return e->mutable_get_membership();
}
pb::Membership* Mutable(pb::Envelope* e, const Membership&) {
  return e->mutable_membership();
}
pb::DeclareKeys* Mutable(pb::Envelope* e, const DeclareKeys&) {
  return e->mutable_declare_keys();
}
pb::KeyTable* Mutable(pb::Envelope* e, const KeyTable&) {
  return e->mutable_key_table();
}
pb::AnnounceKeys* Mutable(pb::Envelope* e, const AnnounceKeys&) {
  return e->mutable_announce_keys();
}
pb::Push* Mutable(pb::Envelope* e, const Push&) {
  return e->mutable_push();
}
pb::Pull* Mutable(pb::Envelope* e, const Pull&) {
  return e->mutable_pull();
}
pb::Values* Mutable(pb::Envelope* e, const Values&) {
  return e->mutable_values();
}
pb::Store* Mutable(pb::Envelope* e, const Store&) {
  return e->mutable_store();
}
pb::SetOptimizer* Mutable(pb::Envelope* e, const SetOptimizer&) {
  return e->mutable_set_optimizer();
}
pb::Barrier* Mutable(pb::Envelope* e, const Barrier&) {
  return e->mutable_barrier();
}
pb::BarrierWaiting* Mutable(pb::Envelope* e, const BarrierWaiting&) {
  return e->mutable_barrier_waiting();
}
pb::BarrierReleased* Mutable(pb::Envelope* e, const BarrierReleased&) {
  return e->mutable_barrier_released();
}
pb::Leave* Mutable(pb::Envelope* e, const Leave&) {
  return e->mutable_leave();
}
pb::Stop* Mutable(pb::Envelope* e, const Stop&) {
  return e->mutable_stop();
}
pb::AwaitOptimizer* Mutable(pb::Envelope* e, const AwaitOptimizer&) {
  return e->mutable_await_optimizer();
}
pb::GetStats* Mutable(pb::Envelope* e, const GetStats&) {
  return e->mutable_get_stats();
}
pb::Stats* Mutable(pb::Envelope* e, const Stats&) {
  return e->mutable_stats();
}
pb::Ack* Mutable(pb::Envelope* e, const Ack&) {
  return e->mutable_ack();
}
pb::ErrorReply* Mutable(pb::Envelope* e, const ErrorReply&) {
  return e->mutable_error_reply();
}

template <typename T, typename P>
bool ReadBody(const P& in, Checker& checker, Body* out) {
  return FromWire(in, checker, &out->emplace<T>());
}

bool BodyFromWire(const pb::Envelope& e, Checker& checker, Body* out) {
  switch (e.body_case()) {
    case pb::Envelope::kRegisterNode:
      return ReadBody<Register>(e.register_node(), checker, out);
    case pb::Envelope::kWelcome:
      return ReadBody<Welcome>(e.welcome(), checker, out);
    case pb::Envelope::kHeartbeat:
      return ReadBody<Heartbeat>(e.heartbeat(), checker, out);
    case pb::Envelope::kHeartbeatAck:
      return ReadBody<HeartbeatAck>(e.heartbeat_ack(), checker, out);
    case pb::Envelope::kGetMembership:
      return ReadBody<GetMembership>(e.get_membership(), checker, out);
    case pb::Envelope::kMembership:
      return ReadBody<Membership>(e.membership(), checker, out);
    case pb::Envelope::kDeclareKeys:
      return ReadBody<DeclareKeys>(e.declare_keys(), checker, out);
    case pb::Envelope::kKeyTable:
      return ReadBody<KeyTable>(e.key_table(), checker, out);
    case pb::Envelope::kAnnounceKeys:
      return ReadBody<AnnounceKeys>(e.announce_keys(), checker, out);
    case pb::Envelope::kPush:
      return ReadBody<Push>(e.push(), checker, out);
    case pb::Envelope::kPull:
      return ReadBody<Pull>(e.pull(), checker, out);
    case pb::Envelope::kValues:
      return ReadBody<Values>(e.values(), checker, out);
    case pb::Envelope::kStore:
      return ReadBody<Store>(e.store(), checker, out);
    case pb::Envelope::kSetOptimizer:
      return ReadBody<SetOptimizer>(e.set_optimizer(), checker, out);
    case pb::Envelope::kBarrier:
      return ReadBody<Barrier>(e.barrier(), checker, out);
    case pb::Envelope::kBarrierWaiting:
      return ReadBody<BarrierWaiting>(e.barrier_waiting(), checker, out);
    case pb::Envelope::kBarrierReleased:
      return ReadBody<BarrierReleased>(e.barrier_released(), checker, out);
    case pb::Envelope::kLeave:
      return ReadBody<Leave>(e.leave(), checker, out);
    case pb::Envelope::kStop:
      return ReadBody<Stop>(e.stop(), checker, out);
    case pb::Envelope::kAwaitOptimizer:
      return ReadBody<AwaitOptimizer>(e.await_optimizer(), checker, out);
    case pb::Envelope::kGetStats:
      return ReadBody<GetStats>(e.get_stats(), checker, out);
    case pb::Envelope::kStats:
      return ReadBody<Stats>(e.stats(), checker, out);
    case pb::Envelope::kAck:
      return ReadBody<Ack>(e.ack(), checker, out);
    case pb::Envelope::kErrorReply:
      return ReadBody<ErrorReply>(e.error_reply(), checker, out);
    case pb::Envelope::BODY_NOT_SET:
      return checker.Refuse("it has no body that this version knows");
  }
  return checker.Refuse("it has no body that this version knows");
}

// In one block of memory.
Frames SmallPayload(const pb::Envelope& envelope, size_t total) {
  const std::shared_ptr<std::byte[]> owner(new std::byte[total]);
  Frames frames;
  frames.reserve(static_cast<size_t>(envelope.small_payload_size()));
  std::byte* at = owner.get();
  for (const std::string& data : envelope.small_payload()) {
    if (!data.empty()) std::memcpy(at, data.data(), data.size());
    frames.emplace_back(Bytes(at, data.size()), owner);
    at += data.size();
  }
  return frames;
}

bool Parse(Bytes bytes, pb::Envelope* envelope) {
  return envelope->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace

bool PayloadTravelsInside(const Message& message) {
  return !message.payload.empty() && message.payload.size() <= kSmallPayload &&
         PayloadBytes(message) <= kSmallPayload;
}

std::string EncodeEnvelope(const Message& message, uint32_t version) {
  alignas(8) char block[kArenaBlock];
  Arena arena(OnStack(block));
  auto* envelope = Arena::CreateMessage<pb::Envelope>(&arena);
  envelope->set_version(version);
  envelope->set_job(message.job);
  pb::Sender* sender = envelope->mutable_sender();
  sender->set_role(EnumToWire<pb::Role>(message.sender.role));
  sender->set_rank(message.sender.rank);
  sender->set_incarnation(message.sender.incarnation);
  envelope->set_id(message.id);
  envelope->set_in_reply_to(message.in_reply_to);
  envelope->set_trace_id(message.trace_id);
  envelope->set_epoch(message.epoch);
  if (PayloadTravelsInside(message)) {
    for (const Frame& frame : message.payload) envelope->add_small_payload(frame.data(), frame.size());
  }
  std::visit([&](const auto& body) { ToWire(body, Mutable(envelope, body)); }, message.body);
  std::string bytes;
  envelope->SerializeToString(&bytes);
  return bytes;
}

Result<Message> DecodeEnvelope(Bytes bytes, const Limits& limits) {
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
  if (!FewElements(bytes, limits)) {
    return Fail(ErrorCode::kResourceExhausted, "envelope of ", bytes.size(), " bytes has too many elements");
  }
  alignas(8) char block[kArenaBlock];
  Arena arena(OnStack(block));
  auto* envelope = Arena::CreateMessage<pb::Envelope>(&arena);
  if (!Parse(bytes, envelope)) {
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
      !BodyFromWire(*envelope, checker, &message.body)) {
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
  message.payload = SmallPayload(*envelope, total);
  return message;
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

Status CheckPayload(const Message& message, const Limits& limits) {
  size_t expected = 0;
  if (const auto* push = std::get_if<Push>(&message.body)) {
    expected = push->parts.size();
  } else if (const auto* store = std::get_if<Store>(&message.body)) {
    expected = store->parts.size();
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
