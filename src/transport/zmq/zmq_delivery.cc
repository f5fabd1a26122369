// Delivery of what arrives: a message is decoded and checked, then it goes to the machine or is refused.
#include "base/strings.h"
#include "transport/zmq/zmq_driver.h"
#include "wire/packing.h"

namespace sluice::transport {
namespace {

// Most characters of a failure in logs and refusals, since it may quote what a peer wrote.
constexpr size_t kMaxReason = 500;

}  // namespace

void ZmqDriver::Deliver(Time now, Channel* channel, Multipart::State state, Multipart* parts) {
  if (state == Multipart::State::kForeign) {
    ++counters_.bad;
    return Warn(nullptr, "a message without a sender or content");
  }
  Peer* peer = SenderOf(*channel, *parts);
  if (!peer->open || now < peer->muted_until) {
    ++counters_.muted;
    return;
  }
  if (options_.drop_received > 0 && chance_.Chance(options_.drop_received)) {
    ++counters_.thrown_away;
    return;
  }
  const Bytes envelope = parts->envelope.bytes();
  if (state == Multipart::State::kTooLong) {
    return Reject(peer, {}, Fail(ErrorCode::kResourceExhausted, "too many payload frames or bytes"));
  }
  auto decoded = wire::DecodeEnvelope(envelope, options_.limits, memory_);
  if (!decoded.ok()) return Reject(peer, envelope, decoded.failure());
  wire::Message& message = decoded.value();
  if (!message.payload.empty() && !parts->payload.empty()) {
    return Reject(peer, envelope,
                  Fail(ErrorCode::kInvalidArgument, "payload both inside its envelope and beside it"));
  }
  if (!parts->payload.empty()) message.payload = std::move(parts->payload);
  // Unpack is called before and after OpenLeases: the frames that Pack made one have their places between
  // leased ones, and the frames that Join made one may have been leased as one.
  if (!message.payload.empty()) {
    if (const Status status = wire::Unpack(&message); !status) {
      return Reject(peer, envelope, status.failure());
    }
  }
  if (shared_) shared_->Collect(peer->id);
  if (message.job != options_.job) {
    return Reject(
        peer, envelope,
        Fail(ErrorCode::kPermissionDenied, "this process belongs to another job: check SLUICE_JOB_ID"));
  }
  if (OnMemoryMessage(peer, message)) return;
  if (!message.leased.empty()) {
    const Status status = shared_ ? shared_->OpenLeases(peer->id, &message)
                                  : Fail(ErrorCode::kInvalidArgument, "payload in memory that is not shared");
    if (!status && status.failure().code == ErrorCode::kResourceExhausted) {
      ++counters_.bad;  // not the sender's fault; it resends the message with its payload instead of leases
      return;
    }
    if (!status) return Reject(peer, envelope, status.failure());
  }
  if (const Status status = wire::Unpack(&message); !status) return Reject(peer, envelope, status.failure());
  if (const Status status = wire::ValidatePayload(message, options_.limits); !status.ok()) {
    return Reject(peer, envelope, status.failure());
  }
  VLOG(2) << options_.name << " from " << peer->name << ": " << wire::Describe(message);
  ++counters_.received;
  machine_->OnMessage(now, peer->id, std::move(message), *this);
}

// Drops and counts a bad message, mutes a peer that sends too many of them, and answers a request with an
// ErrorReply in the request's own protocol version and job.
void ZmqDriver::Reject(Peer* peer, Bytes envelope, const Failure& failure) {
  ++counters_.bad;
  const std::string reason = failure.message.substr(0, kMaxReason);
  Warn(peer, StrCat("dropped its message: ", reason));
  if (++peer->bad >= options_.bad_messages_until_mute) {
    peer->bad = 0;
    peer->muted_until = Now() + options_.mute;
    Warn(peer, "it sends too many bad messages: muted");
  }
  const auto header = wire::PeekHeader(envelope, options_.limits);
  if (!header || header->in_reply_to != 0) return;  // a refusal is never refused in its turn
  wire::Message reply;
  reply.job = header->job;
  reply.sender.role = options_.role;
  reply.in_reply_to = header->id;
  reply.body = wire::ErrorReply{failure.code, reason};
  const RoutingId* to = peer->dealer ? nullptr : &peer->routing_id;
  Channel* channel = ChannelOf(*peer);
  const Frame refusal = wire::EncodeEnvelope(reply, header->version, memory_);
  if (SendMultipart(channel->socket.native(), to, refusal, {}, peer->queue, memory_).consumed_signal)
    channel->drained = false;
}

}  // namespace sluice::transport
