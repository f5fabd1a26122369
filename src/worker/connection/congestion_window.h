// The bytes of pushes that may be in flight to one shard. It should be the least that keeps the link busy,
// since nothing can overtake what has been sent. The window grows while messages arrive about as fast as on
// an idle link, and shrinks when they queue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace sluice::worker {

class CongestionWindow {
 public:
  CongestionWindow(uint64_t least, uint64_t most)
      : least_(std::min(least, most)), most_(most), bytes_(least_) {}

  uint64_t bytes() const { return bytes_; }
  // A message was acknowledged `after` it was sent. `in_flight` bytes were in flight
  // when it was sent, its own included.
  void OnArrival(uint64_t in_flight, Duration after) {
    idle_ = std::min(idle_, after);
    if (in_flight < bytes_ / 2) return;  // a window that was not used says nothing about a larger one
    if (after - idle_ < kQueued) {
      bytes_ = std::min(most_, bytes_ + in_flight);
    } else if (after - idle_ > 2 * kQueued) {
      bytes_ = std::max(least_, bytes_ - bytes_ / 8);
    }
  }

  static constexpr uint64_t kLeast = 256 << 10;
  static constexpr Duration kQueued = 2ms;

 private:
  uint64_t least_, most_;
  uint64_t bytes_;
  Duration idle_ = Duration::max();  // the shortest time that a message has taken
};

}  // namespace sluice::worker
