// How many bytes of pushes may be on their way to one shard: what has left, nothing can overtake. The least
// that keeps the link busy: it grows while messages arrive about as soon as on an idle link, and shrinks
// where they queue.
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
  // A message has arrived, `after` so long. `in_flight`: with it, so many bytes were on their way when it
  // left.
  void OnArrival(uint64_t in_flight, Duration after) {
    idle_ = std::min(idle_, after);
    if (in_flight < bytes_ / 2) return;  // nothing was held back: says nothing of more
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
  Duration idle_ = Duration::max();  // the soonest that a message arrived
};

}  // namespace sluice::worker
