// Counts what ZeroMQ moves and copies for one message. Internal to zmq/.
#pragma once

#include <algorithm>

#include "base/buffer.h"
#include "transport/traffic_counters.h"
#include "wire/messages.h"

namespace sluice::transport {

// Frames of fewer bytes are copied into ZeroMQ's messages, which costs less than passing their ownership.
inline constexpr size_t kCopyBelow = 1024;

// libzmq 4.3.4 reads and writes in batches of 8 KiB: the first 8 KiB of each frame are copied through one.
inline uint64_t CopiedInBatches(size_t frame) {
  return std::min<uint64_t>(frame, 8192);
}

inline void CountSent(const Frame& envelope, const wire::Frames& payload, TrafficCounters* traffic) {
  uint64_t sent = 0, copied = 0;
  const auto count = [&](const Frame& frame) {
    sent += frame.size();
    copied += CopiedInBatches(frame.size()) + (frame.size() < kCopyBelow ? frame.size() : 0);
  };
  count(envelope);
  for (const Frame& frame : payload) count(frame);
  traffic->OnSent(sent, copied);
}

inline void CountReceived(Bytes envelope, const wire::Frames& payload, TrafficCounters* traffic) {
  uint64_t received = envelope.size(), copied = CopiedInBatches(envelope.size());
  for (const Frame& frame : payload) {
    received += frame.size();
    copied += CopiedInBatches(frame.size());
  }
  traffic->OnReceived(received, copied);
}

}  // namespace sluice::transport
