// Delivery of what arrives: a message is read whole, decoded and checked; then it goes to the loop (memory
// offers), to the machine, or it is refused. Invariant: the machine sees no message that has not passed every
// check, and no message of a peer that is muted or disconnected.
// ZmqDriver calls ReadBurst under the loop's lock. Nothing is allocated here but the records of the frames.
#include "transport/zmq/receiver.h"

#include "base/strings.h"
#include "sluice/error.h"
#include "transport/zmq/traffic.h"
#include "wire/packing.h"

namespace sluice::transport {
namespace {

// Messages that are read from one socket before the other sockets, the timer and posted tasks are served.
constexpr int kBurst = 32;
// Most characters of a failure in logs and refusals, since it may quote what a peer wrote.
constexpr size_t kMaxReason = 500;

}  // namespace

void Receiver::ReadBurst(PolledSocket* polled, const TaskQueue& tasks, Time* now) {
  Peer* const peer = polled->peer;
  const bool router = peer == nullptr;
  for (int i = 0; i < kBurst; ++i) {
    Multipart parts;
    const auto state =
        ReceiveMultipart(polled->socket.native(), router, loop_.options.limits, loop_.memory, &parts);
    if (state == Multipart::State::kClosed)
      throw Error(ErrorCode::kCancelled, "the ZeroMQ context has ended");
    if (state == Multipart::State::kNone) {
      polled->drained = true;
      if (router) acceptor_.OnAllRead();
      return;
    }
    *now = LoopResources::Now();
    CountReceived(parts.envelope.bytes(), parts.payload, loop_.options.traffic.get());
    if (router) acceptor_.OnRead(parts, *now);
    if (state == Multipart::State::kForeign) {
      ++loop_.counters.bad;
      loop_.Warn(nullptr, "a message without a sender or content");
    } else {
      Deliver(*now, router ? acceptor_.SenderOf(parts) : peer, state, &parts);
    }
    if (loop_.machine->Done() || tasks.waiting() || (!router && !peer->open)) return;
  }
}

void Receiver::Deliver(Time now, Peer* peer, Multipart::State state, Multipart* parts) {
  if (!peer->open || now < peer->muted_until) {
    ++loop_.counters.muted;
    return;
  }
  if (loop_.options.drop_received > 0 && chance_.Chance(loop_.options.drop_received)) {
    ++loop_.counters.thrown_away;
    return;
  }
  const Bytes envelope = parts->envelope.bytes();
  if (state == Multipart::State::kTooLong) {
    return Reject(peer, {}, Fail(ErrorCode::kResourceExhausted, "too many payload frames or bytes"));
  }
  auto decoded = wire::DecodeEnvelope(envelope, loop_.options.limits, loop_.memory);
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
  if (message.job != loop_.options.job) {
    return Reject(
        peer, envelope,
        Fail(ErrorCode::kPermissionDenied, "this process belongs to another job: check SLUICE_JOB_ID"));
  }
  if (memory_exchange_.OnMessage(peer, message)) return;
  if (const Status status = memory_exchange_.OpenLeases(*peer, &message); !status) {
    if (status.failure().code != ErrorCode::kResourceExhausted)
      return Reject(peer, envelope, status.failure());
    ++loop_.counters
          .bad;  // not the sender's fault; it resends the message with its payload instead of leases
    return;
  }
  if (const Status status = wire::Unpack(&message); !status) return Reject(peer, envelope, status.failure());
  if (const Status status = wire::ValidatePayload(message, loop_.options.limits); !status.ok()) {
    return Reject(peer, envelope, status.failure());
  }
  VLOG(2) << loop_.options.name << " from " << peer->name << ": " << wire::Describe(message);
  ++loop_.counters.received;
  loop_.machine->OnMessage(now, peer->id, std::move(message), loop_.network);
}

void Receiver::Reject(Peer* peer, Bytes envelope, const Failure& failure) {
  ++loop_.counters.bad;
  const std::string reason = failure.message.substr(0, kMaxReason);
  loop_.Warn(peer, StrCat("dropped its message: ", reason));
  if (++peer->bad >= loop_.options.bad_messages_until_mute) {
    peer->bad = 0;
    peer->muted_until = LoopResources::Now() + loop_.options.mute;
    loop_.Warn(peer, "it sends too many bad messages: muted");
  }
  const auto header = wire::PeekHeader(envelope, loop_.options.limits);
  if (!header || header->in_reply_to != 0) return;  // a refusal is never refused in its turn
  sender_.SendRefusal(*peer, *header, wire::ErrorReply{failure.code, reason});
}

}  // namespace sluice::transport
