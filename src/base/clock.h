// Time is an argument: protocol code takes `now`, and only the loops that drive it own a Clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;

inline double ToSeconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
inline Duration FromSeconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

// A timeout that never ends: 100 years. Adding it to a time does not overflow.
inline constexpr Duration kNoLimit = std::chrono::hours(24 * 365 * 100);

// Clamps a caller's timeout to the range from 0 to kNoLimit.
inline Duration Bounded(std::chrono::milliseconds timeout) {
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::milliseconds>(kNoLimit);
  return std::clamp(timeout, timeout.zero(), kMost);
}

// Returns the deadline of a wait that begins at `now`: Time::max() if the timeout is kNoLimit.
inline Time DeadlineOf(Time now, Duration timeout) {
  return timeout >= kNoLimit ? Time::max() : now + timeout;
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

// The machine's monotonic clock. Thread-safe.
class SteadyClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace sluice
