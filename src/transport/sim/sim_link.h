// What a host's link does to messages: each direction passes one after the other, at its rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace sluice::transport {

// Rates are in bytes a second, of envelopes and payloads together; 0: without a limit.
struct SimLink {
  double transmit_rate = 0;
  double receive_rate = 0;
};

// One direction of a link.
class SimPipe {
 public:
  explicit SimPipe(double rate) : rate_(rate) {}
  bool limited() const { return rate_ > 0; }
  Duration TimeOf(uint64_t bytes) const {
    return limited() ? Duration(std::llround(static_cast<double>(bytes) / rate_ * 1e9)) : Duration::zero();
  }
  // When the last of `bytes` that come at `now` has passed, behind all that came before.
  Time Pass(Time now, uint64_t bytes) {
    free_ = std::max(free_, now) + TimeOf(bytes);
    return free_;
  }
  Time free() const { return free_; }

 private:
  double rate_;
  Time free_{};
};

struct SimHost {
  explicit SimHost(const SimLink& link) : transmit(link.transmit_rate), receive(link.receive_rate) {}
  SimPipe transmit, receive;
};

}  // namespace sluice::transport
