// Counts the bytes that a process moves through sockets and copies on the way: the cost of transport besides
// processor time. A payload inside its envelope (at most 256 bytes) counts as part of the envelope.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::transport {

// Thread-safe.
class TrafficCounters {
 public:
  // `copied`: how many bytes the transport has copied within the process to send or receive `bytes`.
  void OnSent(uint64_t bytes, uint64_t copied) {
    Add(bytes, &sent_);
    Add(copied, &copied_);
  }
  void OnReceived(uint64_t bytes, uint64_t copied) {
    Add(bytes, &received_);
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
  static void Add(uint64_t bytes, std::atomic<uint64_t>* to) {
    to->fetch_add(bytes, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> sent_ = 0, received_ = 0, copied_ = 0;
};

}  // namespace sluice::transport
