// Converts between frames and zmq_msg_t. A frame of at least kCopyBelow bytes is passed to
// ZeroMQ as a QueuedFrame, which keeps the frame alive and counts its bytes as queued until ZeroMQ releases
// it on an I/O thread; smaller frames are copied. A received payload frame owns its zmq_msg_t. Invariant: a
// multipart is read to its end, also when it exceeds the limits, so that the next call begins with a new one.
// Called by a loop under its lock; no function blocks.
#include "transport/zmq/frames.h"

#include <zmq.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/pool_allocator.h"
#include "transport/zmq/traffic.h"

namespace sluice::transport {
namespace {

// A frame while ZeroMQ holds it.
class QueuedFrame {
 public:
  // The object lives until Release.
  static QueuedFrame* Make(const std::shared_ptr<Allocator>& memory,
                           const std::shared_ptr<QueuedByteCounter>& queue, uint64_t counted,
                           const Frame& frame) {
    return new (memory->Allocate(sizeof(QueuedFrame))) QueuedFrame(memory, queue, counted, frame);
  }
  // The function that ZeroMQ calls on one of its threads.
  static void Release(void*, void* held) {
    const std::shared_ptr<Allocator> memory = std::move(static_cast<QueuedFrame*>(held)->memory_);
    static_cast<QueuedFrame*>(held)->~QueuedFrame();
    memory->Deallocate(held, sizeof(QueuedFrame));
  }
  Bytes bytes() const { return frame_.bytes(); }

 private:
  QueuedFrame(const std::shared_ptr<Allocator>& memory, const std::shared_ptr<QueuedByteCounter>& queue,
              uint64_t counted, const Frame& frame)
      : memory_(memory), queue_(queue), counted_(counted), frame_(frame) {
    queue_->Add(counted_);
  }
  ~QueuedFrame() { queue_->Remove(counted_); }

  std::shared_ptr<Allocator> memory_;
  const std::shared_ptr<QueuedByteCounter> queue_;
  const uint64_t counted_;
  const Frame frame_;
};

// Sends `msg`; on failure closes it, which releases its content. Returns false when nothing more can be sent.
//
// errno shows whether the socket has processed arrivals: every few milliseconds a send first processes the
// socket's commands until there are no more, which sets EAGAIN, and that remains in errno although the
// message is then written (socket_base_t::process_commands, libzmq 4.3.4).
bool SendOrClose(void* socket, zmq_msg_t* msg, bool more, SendResult* sent) {
  int rc;
  do {
    errno = 0;
    rc = zmq_msg_send(msg, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    sent->consumed_signal = sent->consumed_signal || errno != 0;
  } while (rc < 0 && errno == EINTR);
  if (rc < 0) zmq_msg_close(msg);
  sent->reached = rc >= 0;
  return sent->reached;
}

bool SendHeld(void* socket, QueuedFrame* held, bool more, SendResult* sent) {
  zmq_msg_t msg;
  // ZeroMQ does not write to the bytes that it sends.
  void* data = const_cast<std::byte*>(held->bytes().data());
  if (zmq_msg_init_data(&msg, data, held->bytes().size(), &QueuedFrame::Release, held) != 0) {
    QueuedFrame::Release(data, held);
    throw std::bad_alloc();
  }
  return SendOrClose(socket, &msg, more, sent);
}

bool SendCopy(void* socket, Bytes bytes, bool more, SendResult* sent) {
  zmq_msg_t msg;
  if (zmq_msg_init_size(&msg, bytes.size()) != 0) throw std::bad_alloc();
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&msg), bytes.data(), bytes.size());
  return SendOrClose(socket, &msg, more, sent);
}

zmq_msg_t* Native(std::byte* storage) {
  static_assert(sizeof(zmq_msg_t) == 64);
  return reinterpret_cast<zmq_msg_t*>(storage);
}

Multipart::State StateOfErrno() {
  return errno == ETERM || errno == ENOTSOCK ? Multipart::State::kClosed : Multipart::State::kNone;
}

// Receives without waiting, and repeats after EINTR: a signal may interrupt ZeroMQ when it has processed the
// arrival of a message, which its descriptor then does not signal again, but has not looked for it yet.
bool ReceiveNext(void* socket, ZmqFrame* frame) {
  while (!frame->Receive(socket)) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

SendResult SendMultipart(void* socket, const RoutingId* to, const Frame& envelope,
                         const wire::Frames& payload, const std::shared_ptr<QueuedByteCounter>& queue,
                         const std::shared_ptr<Allocator>& memory) {
  SendResult sent;
  if (to != nullptr && !SendCopy(socket, std::as_bytes(std::span(to, 1)), true, &sent)) return sent;
  const auto is_small = [](const Frame& frame) { return frame.size() < kCopyBelow; };
  uint64_t small = is_small(envelope) ? envelope.size() : 0;
  for (const Frame& frame : payload) small += is_small(frame) ? frame.size() : 0;
  queue->DeferBytes(small);
  const auto send = [&](const Frame& frame, bool keeps_frame, bool more) {
    if (!keeps_frame) return SendCopy(socket, frame.bytes(), more, &sent);
    const uint64_t counted = queue->TakeDeferred() + (is_small(frame) ? 0 : frame.size());
    return SendHeld(socket, QueuedFrame::Make(memory, queue, counted, frame), more, &sent);
  };
  const bool deferred_enough = queue->deferred() > QueuedByteCounter::kMaxDeferred;
  if (!send(envelope, deferred_enough || !is_small(envelope), !payload.empty())) return sent;
  for (size_t i = 0; i < payload.size(); ++i) {
    if (!send(payload[i], !is_small(payload[i]), i + 1 < payload.size())) break;
  }
  return sent;
}

ZmqFrame::ZmqFrame() {
  zmq_msg_init(Native(msg_));
}
ZmqFrame::~ZmqFrame() {
  zmq_msg_close(Native(msg_));
}
bool ZmqFrame::Receive(void* socket) {
  return zmq_msg_recv(Native(msg_), socket, ZMQ_DONTWAIT) >= 0;
}
Bytes ZmqFrame::bytes() const {
  return {static_cast<const std::byte*>(zmq_msg_data(Native(msg_))), zmq_msg_size(Native(msg_))};
}
bool ZmqFrame::more() const {
  return zmq_msg_more(Native(msg_)) != 0;
}
std::string ZmqFrame::peer_address() const {
  const char* address = zmq_msg_gets(Native(msg_), "Peer-Address");
  return address == nullptr ? "" : address;
}
int ZmqFrame::connection() const {
  return zmq_msg_get(Native(msg_), ZMQ_SRCFD);
}
uint64_t ZmqFrame::bytes_on_wire() const {
  const uint64_t size = bytes().size();
  return size + (size > 255 ? 9 : 2);  // flags and length: https://rfc.zeromq.org/spec/23/
}

Multipart::State ReceiveMultipart(void* socket, bool router, const wire::Limits& limits,
                                  const std::shared_ptr<Allocator>& memory, Multipart* out) {
  using State = Multipart::State;
  out->payload.clear();
  ZmqFrame* last = router ? &out->first : &out->envelope;
  if (!ReceiveNext(socket, last)) return StateOfErrno();
  State state = State::kWhole;
  if (router) {
    const Bytes id = last->bytes();
    out->from = 0;
    if (id.size() == sizeof out->from) std::memcpy(&out->from, id.data(), sizeof out->from);
    if (out->from == 0 || !last->more()) state = State::kForeign;
    if (last->more()) {
      last = &out->envelope;
      if (!ReceiveNext(socket, last)) return StateOfErrno();
    }
  }
  if (router) out->connection = out->envelope.connection();
  bool more = last->more();
  uint64_t bytes = last->bytes().size();
  out->wire_bytes = last->bytes_on_wire();
  while (more) {
    if (state != State::kWhole) {
      if (!ReceiveNext(socket, &out->envelope)) return StateOfErrno();
      more = out->envelope.more();
      out->wire_bytes += out->envelope.bytes_on_wire();
      continue;
    }
    auto frame = std::allocate_shared<ZmqFrame>(MemoryOf<ZmqFrame>(memory));
    if (!ReceiveNext(socket, frame.get())) return StateOfErrno();
    more = frame->more();
    out->wire_bytes += frame->bytes_on_wire();
    bytes += frame->bytes().size();
    if (out->payload.size() == limits.max_payload_frames || bytes > limits.max_message_bytes) {
      state = State::kTooLong;
      out->payload.clear();
      continue;
    }
    const Bytes content = frame->bytes();
    out->payload.emplace_back(content, std::move(frame));
  }
  return state;
}

}  // namespace sluice::transport
