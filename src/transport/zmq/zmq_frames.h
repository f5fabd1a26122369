// Messages as ZeroMQ multiparts. Internal to zmq/.
//
// Sending: large frames are handed over, not copied; ZeroMQ drops them on one of its I/O threads once they
// are written. Receiving: payload frames own ZeroMQ's memory. What keeps either alive lies in the `memory`
// given, which any thread may get back.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "wire/codec.h"

namespace sluice::transport {

// Bytes given to ZeroMQ for one peer and not yet written. Thread-safe, but that one thread at a time sends.
class SendQueue {
 public:
  // Of frames that were copied ZeroMQ does not tell when they have left: they count with the next one that is
  // handed over, and until then, up to so many bytes, not at all.
  static constexpr uint64_t kMostPutOff = 16 << 10;
  void PutOff(uint64_t n) { put_off_ += n; }
  uint64_t put_off() const { return put_off_; }
  uint64_t TakePutOff() { return std::exchange(put_off_, 0); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void Add(uint64_t n) { bytes_.fetch_add(n, std::memory_order_relaxed); }
  void Remove(uint64_t n) { bytes_.fetch_sub(n, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bytes_ = 0;
  uint64_t put_off_ = 0;  // of who sends
};

// The routing id of a ROUTER's peer: what a DEALER of ours chose. Its first byte is not zero.
using RoutingId = uint64_t;

struct Sent {
  bool reached = true;  // false: the peer cannot be reached, and nothing was sent
  // ZeroMQ may have taken note of messages that arrived, which the socket's descriptor then tells no more of.
  bool took_note = false;
};
// `to`: null on a DEALER.
Sent SendMultipart(void* socket, const RoutingId* to, const Frame& envelope, const wire::Frames& payload,
                   const std::shared_ptr<SendQueue>& queue, const std::shared_ptr<Allocator>& memory);

// A zmq_msg_t in place: it must not move, since small messages lie inside it.
class ZmqFrame {
 public:
  ZmqFrame();
  ~ZmqFrame();
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;
  // Without waiting; what it held before is dropped. False: errno says why.
  bool Receive(void* socket);
  Bytes bytes() const;
  bool more() const;
  // Of the connection that it came by: "127.0.0.1", or empty.
  std::string peer_address() const;
  int connection() const;          // its descriptor, or -1
  uint64_t bytes_on_wire() const;  // with what frames it in ZMTP

 private:
  alignas(void*) mutable std::byte msg_[64];
};

struct Multipart {
  enum class State {
    kNone,  // nothing has arrived
    kWhole,
    kTooLong,  // more frames or bytes than the limits allow: read to its end and thrown away
    kForeign,  // no routing id of ours, or no envelope
    kClosed,   // the context is ending
  };
  RoutingId from = 0;   // ROUTER only
  int connection = -1;  // ROUTER only: its descriptor, or -1
  ZmqFrame first;       // ROUTER: the routing id
  ZmqFrame envelope;
  wire::Frames payload;
  uint64_t wire_bytes = 0;  // all of it, also what was thrown away
};
Multipart::State ReceiveMultipart(void* socket, bool router, const wire::Limits& limits,
                                  const std::shared_ptr<Allocator>& memory, Multipart* out);

}  // namespace sluice::transport
