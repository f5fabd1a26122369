// Counts the bytes that a process moves through sockets and copies on the way: the cost of transport besides
// processor time. A payload inside its envelope (at most 256 bytes) counts as part of the envelope.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/buffer.h"
#include "wire/messages.h"

namespace sluice::transport {

// Thread-safe.
class TrafficCounters {
 public:
  // Frames of fewer bytes are copied into ZeroMQ's messages, which costs less than passing their ownership.
  static constexpr size_t kCopyBelow = 1024;

  void OnSent(const Frame& envelope, const wire::Frames& payload) {
    uint64_t sent = 0, copied = 0;
    const auto count = [&](const Frame& frame) {
      sent += frame.size();
      copied += InBatches(frame.size()) + (frame.size() < kCopyBelow ? frame.size() : 0);
    };
    count(envelope);
    for (const Frame& frame : payload) count(frame);
    Add(sent, &sent_);
    Add(copied, &copied_);
  }
  void OnReceived(Bytes envelope, const wire::Frames& payload) {
    uint64_t received = envelope.size(), copied = InBatches(envelope.size());
    for (const Frame& frame : payload) {
      received += frame.size();
      copied += InBatches(frame.size());
    }
    Add(received, &received_);
    Add(copied, &copied_);
  }

  void OnCopied(uint64_t bytes) {
    if (bytes > 0) Add(bytes, &copied_);
  }

  // Bytes through sockets; the kernel has copied each of them once.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  // Bytes copied within this process.
  uint64_t copied() const { return copied_; }

 private:
  // libzmq 4.3.4 reads and writes in batches of 8 KiB: the first 8 KiB of each frame are copied through one.
  static uint64_t InBatches(size_t frame) { return std::min<uint64_t>(frame, 8192); }
  static void Add(uint64_t bytes, std::atomic<uint64_t>* to) {
    to->fetch_add(bytes, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> sent_ = 0, received_ = 0, copied_ = 0;
};

}  // namespace sluice::transport
