// What has happened in a simulation: a hash of all of it, and the newest part as text.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "wire/messages.h"

namespace sluice::transport {

// What became of a message, or what a loop did.
enum class SimFate : uint8_t {
  kSent,
  kArrived,
  kDropped,
  kCut,
  kOverflow,
  kNoReceiver,
  kRefused,
  kStarted,
  kTask,
  kTimer,
  kCrashed,
  kEnded,
  kClosed,
  kRoom
};

class SimHistory {
 public:
  SimHistory(uint64_t seed, size_t max_entries);

  // `from`, `to`: indices of loops. `message` is null for what concerns none.
  void Add(Time now, SimFate fate, uint32_t from, uint32_t to, const wire::Message* message);
  // Two simulations with the same hash made the same calls in the same order at the same times.
  uint64_t hash() const { return hash_; }
  // Returns the newest entries, one line each; times count from `begin`.
  std::string Text(Time begin, const std::function<std::string_view(uint32_t loop)>& name_of) const;

 private:
  struct Entry {
    Time time;
    SimFate fate;
    uint8_t body;
    uint32_t from, to;
    uint64_t id;
  };
  const size_t max_entries_;
  uint64_t hash_;
  std::deque<Entry> entries_;
};

}  // namespace sluice::transport
