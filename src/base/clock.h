// Time as an argument. Protocol code takes `now`; only shells around it own a Clock.
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

// A timeout that never comes; a time plus it does not overflow.
inline constexpr Duration kNoLimit = std::chrono::hours(24 * 365 * 100);

// A caller's timeout, whatever it is, from 0 to kNoLimit.
inline Duration Bounded(std::chrono::milliseconds timeout) {
  constexpr auto kMost = std::chrono::duration_cast<std::chrono::milliseconds>(kNoLimit);
  return std::clamp(timeout, timeout.zero(), kMost);
}

// When a wait that begins at `now` is given up: Time::max() where the timeout is kNoLimit.
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

// A clock that stands still until told. For tests and simulation; one thread.
class ManualClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Set(Time now) { now_ = now; }
  void Advance(Duration d) { now_ += d; }

 private:
  Time now_{};
};

}  // namespace sluice
