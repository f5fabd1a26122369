// Encodes a message and gives it to ZeroMQ: frames are joined, leased or packed first, whichever is cheapest.
// Invariant: a peer is in without_room_ from a HasRoom that returned false until its OnRoom; whatever ends
// that wait (bytes have left, or the peer is gone) wakes the loop by LoopResources::room_wakeup. The machine
// calls it through ZmqDriver, Receiver and MemoryExchange directly, all under the loop's lock.
#include "transport/zmq/sender.h"

#include "base/strings.h"
#include "transport/zmq/traffic.h"
#include "wire/packing.h"

namespace sluice::transport {

void Sender::Send(PeerId id, wire::Message&& message) {
  const Peer* peer = peers_.Find(id);
  if (peer == nullptr || !peer->open) {
    ++loop_.counters.unreachable;
    return;
  }
  VLOG(2) << loop_.options.name << " to " << peer->name << ": " << wire::Describe(message);
  const uint64_t queued = peer->queue->bytes();
  if (queued > 0 && queued + wire::PayloadBytes(message) > loop_.options.max_queued_bytes) {
    ++loop_.counters.overflowed;
    return loop_.Warn(
        peer, StrCat(HumanBytes(queued),
                     " are queued for it, which its link or it itself takes more slowly "
                     "than they come; a message is dropped, and what was asked for is asked for again"));
  }
  wire::Join(&message);
  if (sharing_ != nullptr) loop_.options.traffic->OnCopied(sharing_->LeaseOut(id, &message));
  const bool inside = wire::IsPayloadInline(message);
  if (!inside) loop_.options.traffic->OnCopied(wire::Pack(&message, loop_.memory));
  const Frame envelope = wire::EncodeEnvelope(message, wire::kProtocolVersion, loop_.memory);
  if (inside) message.payload.clear();
  const SendResult sent = SendMultipart(peer->polled->socket.native(), peer->address(), envelope,
                                        message.payload, peer->queue, loop_.memory);
  if (sent.consumed_signal) peer->polled->drained = false;
  if (sent.reached) {
    ++loop_.counters.sent;
    CountSent(envelope, message.payload, loop_.options.traffic.get());
  } else {
    ++loop_.counters.unreachable;
  }
}

void Sender::SendToLoop(PeerId id, wire::Body body) {
  wire::Message message;
  message.job = loop_.options.job;
  message.sender.role = loop_.options.role;
  message.body = std::move(body);
  Send(id, std::move(message));
}

void Sender::SendRefusal(const Peer& peer, const wire::Header& header, const wire::ErrorReply& refusal) {
  wire::Message reply;
  reply.job = header.job;
  reply.sender.role = loop_.options.role;
  reply.in_reply_to = header.id;
  reply.body = refusal;
  const Frame envelope = wire::EncodeEnvelope(reply, header.version, loop_.memory);
  if (SendMultipart(peer.polled->socket.native(), peer.address(), envelope, {}, peer.queue, loop_.memory)
          .consumed_signal)
    peer.polled->drained = false;
}

uint64_t Sender::QueuedBytes(PeerId id) const {
  const Peer* peer = peers_.Find(id);
  return peer == nullptr ? 0 : peer->queue->bytes();
}

bool Sender::HasRoom(PeerId id) {
  const Peer* peer = peers_.Find(id);
  if (peer == nullptr || !peer->open || peer->queue->bytes() <= loop_.options.room_bytes) return true;
  if (!peer->queue->Await(loop_.options.room_bytes / 2)) return true;
  without_room_.insert(id);
  return false;
}

// What was queued for a peer that is gone has been released, or the peer is not even known any more.
void Sender::ReportRoom() {
  std::vector<PeerId> told;
  std::erase_if(without_room_, [&](PeerId id) {
    const Peer* peer = peers_.Find(id);
    const bool waits = peer != nullptr && peer->open && peer->queue->awaited();
    if (!waits) told.push_back(id);
    return !waits;
  });
  for (const PeerId id : told) loop_.machine->OnRoom(LoopResources::Now(), id, loop_.network);
}

void Sender::OnGone(PeerId peer) {
  if (without_room_.contains(peer)) loop_.room_wakeup->Wake();
}

}  // namespace sluice::transport
