// Sends and receives messages as ZeroMQ multiparts. Internal to zmq/.
//
// Sending: large frames are passed to ZeroMQ without a copy; it releases them on one of its I/O threads once
// they are written. Receiving: payload frames own ZeroMQ's memory. The objects that keep either alive are
// allocated from the parameter `memory`, and freed on any thread.
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

// Wakes a loop from ZeroMQ's threads, which may hold frames that the loop sent for longer than the loop
// lives. Thread-safe.
class Wakeup {
 public:
  explicit Wakeup(std::function<void()> wake) : wake_(std::move(wake)) {}
  void Wake() {
    woken_ = true;
    wake_.With([](const auto& wake) {
      if (wake) wake();
    });
  }
  // Returns whether Wake was called since the last call of TakeWoken.
  bool TakeWoken() { return woken_.load(std::memory_order_relaxed) && woken_.exchange(false); }
  // From here on Wake calls nothing.
  void Detach() {
    wake_.With([](auto& wake) { wake = nullptr; });
  }

 private:
  std::atomic<bool> woken_ = false;
  Guarded<std::function<void()>> wake_;
};

// Counts the bytes given to ZeroMQ for one peer and not yet written. Thread-safe, except that only one thread
// at a time may send and use the deferred bytes.
class QueuedByteCounter {
 public:
  explicit QueuedByteCounter(std::shared_ptr<Wakeup> wakeup = nullptr) : wakeup_(std::move(wakeup)) {}

  // ZeroMQ does not report when copied frames have been written. So their bytes are deferred: they are
  // counted with the next frame that is passed without a copy; at most kMaxDeferred stay uncounted till then.
  static constexpr uint64_t kMaxDeferred = 16 << 10;
  void DeferBytes(uint64_t n) { deferred_ += n; }
  uint64_t deferred() const { return deferred_; }
  uint64_t TakeDeferred() { return std::exchange(deferred_, 0); }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void Add(uint64_t n) { bytes_.fetch_add(n, std::memory_order_relaxed); }
  // Sequentially consistent with Await: of two concurrent calls at least one sees the effect of the other.
  void Remove(uint64_t n) {
    const uint64_t left = bytes_.fetch_sub(n) - n;
    if (const int64_t most = awaited_.load(); most >= 0 && left <= static_cast<uint64_t>(most)) Arrive();
  }

  // Requests one call of Wakeup::Wake, when at most `most` bytes are left. Returns false, and no call comes,
  // when that is so already.
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

  const std::shared_ptr<Wakeup> wakeup_;  // null: Await is never called
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int64_t> awaited_ = kNothing;
  uint64_t deferred_ = 0;  // used by the sending thread only
};

// The routing id of a ROUTER's peer, chosen by the DEALER of that peer's loop. Its first byte is not zero.
using RoutingId = uint64_t;

struct SendResult {
  bool reached = true;  // false: the peer cannot be reached, and nothing was sent
  // ZeroMQ may have processed the arrival of messages, which the socket's descriptor does not signal again.
  bool consumed_signal = false;
};
// Sends one multipart without blocking. `to`: the receiver on a ROUTER; null on a DEALER.
SendResult SendMultipart(void* socket, const RoutingId* to, const Frame& envelope,
                         const wire::Frames& payload, const std::shared_ptr<QueuedByteCounter>& queue,
                         const std::shared_ptr<Allocator>& memory);

// A zmq_msg_t. It must not move, since small messages lie inside it.
class ZmqFrame {
 public:
  ZmqFrame();
  ~ZmqFrame();
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;
  // Receives without waiting, and releases what the frame held before. Returns false with errno set.
  bool Receive(void* socket);
  Bytes bytes() const;
  bool more() const;
  // Returns the other end's address of the connection by which the frame came: "127.0.0.1", or empty.
  std::string peer_address() const;
  int connection() const;          // that connection's descriptor, or -1
  uint64_t bytes_on_wire() const;  // with ZMTP's flags and length

 private:
  alignas(void*) mutable std::byte msg_[64];
};

struct Multipart {
  enum class State {
    kNone,  // nothing has arrived
    kWhole,
    kTooLong,  // more frames or bytes than the limits allow: read to its end and dropped
    kForeign,  // no routing id as our DEALERs choose it, or no envelope
    kClosed,   // the context is ending
  };
  RoutingId from = 0;   // ROUTER only
  int connection = -1;  // ROUTER only: the connection's descriptor, or -1
  ZmqFrame first;       // ROUTER only: the routing id
  ZmqFrame envelope;
  wire::Frames payload;
  uint64_t wire_bytes = 0;  // the whole multipart's, dropped frames included
};
// Receives the next multipart into `*out`, without blocking. `router`: the socket is a ROUTER.
Multipart::State ReceiveMultipart(void* socket, bool router, const wire::Limits& limits,
                                  const std::shared_ptr<Allocator>& memory, Multipart* out);

}  // namespace sluice::transport
