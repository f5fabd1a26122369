// The model of a host's link: in each direction messages pass one after the other, at that direction's rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace sluice::transport {

// Rates are in bytes per second, for envelopes and payloads together; 0 means unlimited.
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
  // Sends `bytes` that come at `now` through the link, behind all that came before. Returns the time at which
  // the last one has passed.
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

// The times at which a message's first and last byte leave its host. `bytes` is 0 when it uses no link.
struct SimDeparture {
  uint64_t bytes;
  Time first, last;
};

}  // namespace sluice::transport
