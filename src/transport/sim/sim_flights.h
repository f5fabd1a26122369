// The messages of a simulation that are on their way.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "wire/messages.h"

namespace sluice::transport {

struct SimFlight {
  uint32_t connection;
  uint8_t side;    // the sender
  Time last;       // when its last byte reaches the receiver's link
  uint64_t bytes;  // 0: it uses no link
  wire::Message message;
};

class SimFlights {
 public:
  // Returns the flight's slot, which is its own until Take.
  uint32_t Add(SimFlight flight) {
    if (free_.empty()) {
      flights_.push_back(std::move(flight));
      return static_cast<uint32_t>(flights_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    flights_[slot] = std::move(flight);
    return slot;
  }
  const SimFlight& operator[](uint32_t slot) const { return flights_[slot]; }
  SimFlight Take(uint32_t slot) {
    free_.push_back(slot);
    return std::move(flights_[slot]);
  }

 private:
  std::vector<SimFlight> flights_;
  std::vector<uint32_t> free_;
};

}  // namespace sluice::transport
