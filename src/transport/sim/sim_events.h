// The events of a simulation, in the order in which they run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "base/clock.h"

namespace sluice::transport {

enum class SimEventKind : uint8_t { kStart, kTask, kTimer, kReach, kArrival, kBurstEnd, kClosed, kRoom };

struct SimEvent {
  Time time;
  uint64_t sequence;  // events of the same time run in this order, in which they were made
  SimEventKind kind;
  // The index of a loop; for kReach and kArrival of a flight, for kClosed and kRoom of a connection.
  uint32_t subject;
  uint64_t generation;  // for kTimer the timer's; for kRoom the side
  bool operator>(const SimEvent& other) const {
    return time != other.time ? time > other.time : sequence > other.sequence;
  }
};

class SimEvents {
 public:
  void Push(Time time, SimEventKind kind, uint32_t subject, uint64_t generation = 0) {
    events_.push({time, sequence_++, kind, subject, generation});
  }
  // Removes the earliest event and returns it; nullopt when none is due by `deadline`.
  std::optional<SimEvent> Pop(Time deadline) {
    if (events_.empty() || events_.top().time > deadline) return std::nullopt;
    const SimEvent event = events_.top();
    events_.pop();
    return event;
  }

 private:
  uint64_t sequence_ = 0;
  std::priority_queue<SimEvent, std::vector<SimEvent>, std::greater<>> events_;
};

}  // namespace sluice::transport
