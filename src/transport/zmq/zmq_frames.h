// Messages as ZeroMQ multiparts. Internal to zmq/.
//
// Sending: large frames are handed over, not copied; ZeroMQ drops them on one of its I/O threads once they
// are written. Receiving: payload frames own ZeroMQ's memory. What keeps either alive lies in the `memory`
// given, which any thread may get back.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/guarded.h"
#include "wire/codec.h"

namespace sluice::transport {

// Wakes a loop from ZeroMQ's threads, which may hold what it sent for longer than it lives. Thread-safe.
class Wakeup {
 public:
  explicit Wakeup(std::function<void()> wake) : wake_(std::move(wake)) {}
  void Wake() {
    woken_ = true;
    wake_.With([](const auto& wake) {
      if (wake) wake();
    });
  }
  // Whether it was called since the last time.
  bool TakeWoken() { return woken_.load(std::memory_order_relaxed) && woken_.exchange(false); }
  // Wake wakes nobody from here on.
  void Detach() {
    wake_.With([](auto& wake) { wake = nullptr; });
  }

 private:
  std::atomic<bool> woken_ = false;
  Guarded<std::function<void()>> wake_;
};

// Bytes given to ZeroMQ for one peer and not yet written. Thread-safe, but that one thread at a time sends.
class QueuedByteCounter {
 public:
  explicit QueuedByteCounter(std::shared_ptr<Wakeup> wakeup = nullptr) : wakeup_(std::move(wakeup)) {}

  // Of frames that were copied ZeroMQ does not tell when they have left: they count with the next one that is
  // handed over, and until then, up to so many bytes, not at all.
  static constexpr uint64_t kMaxDeferred = 16 << 10;
  void DeferBytes(uint64_t n) { deferred_ += n; }
  uint64_t deferred() const { return deferred_; }
  uint64_t TakeDeferred() { return std::exchange(deferred_, 0); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void Add(uint64_t n) { bytes_.fetch_add(n, std::memory_order_relaxed); }
  // Sequentially consistent with Await: one of the two sees what the other has done.
  void Remove(uint64_t n) {
    const uint64_t left = bytes_.fetch_sub(n) - n;
    if (const int64_t most = awaited_.load(); most >= 0 && left <= static_cast<uint64_t>(most)) Arrive();
  }

  // The wakeup comes once, when at most `most` bytes are left. False: that is so already, and none comes.
  bool Await(uint64_t most) {
    awaited_.store(static_cast<int64_t>(most));
    return bytes_.load() > most || awaited_.exchange(kNothing) == kNothing;
  }
  bool awaited() const { return awaited_.load() != kNothing; }

 private:
  static constexpr int64_t kNothing = -1;

  void Arrive() {
    if (awaited_.exchange(kNothing) != kNothing) wakeup_->Wake();
  }

  const std::shared_ptr<Wakeup> wakeup_;  // null: nobody awaits anything
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int64_t> awaited_ = kNothing;
  uint64_t deferred_ = 0;  // of who sends
};

// The routing id of a ROUTER's peer: what a DEALER of ours chose. Its first byte is not zero.
using RoutingId = uint64_t;

struct SendResult {
  bool reached = true;  // false: the peer cannot be reached, and nothing was sent
  // ZeroMQ may have taken note of messages that arrived, which the socket's descriptor then tells no more of.
  bool consumed_signal = false;
};
// `to`: null on a DEALER.
SendResult SendMultipart(void* socket, const RoutingId* to, const Frame& envelope,
                         const wire::Frames& payload, const std::shared_ptr<QueuedByteCounter>& queue,
                         const std::shared_ptr<Allocator>& memory);

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
