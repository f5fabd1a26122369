// Logging through glog, to standard error only. glog's LOG(INFO|WARNING|ERROR) is what code uses;
// VLOG(1) tells connections, membership, barriers and rounds (PS_VERBOSE=1), VLOG(2) every message
// (PS_VERBOSE=2). A line begins with the time, and with WARNING: or ERROR: where it is one.
#pragma once

#include <glog/logging.h>

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace sluice {

// Once, in main() or sluice::Init, before threads start.
void InitLogging(const std::string& program, int verbosity);

// Lets through at most `per_interval` lines each `interval`; counts what it swallowed. Not thread-safe: one
// owner.
class LogLimiter {
 public:
  LogLimiter(int per_interval, Duration interval) : per_interval_(per_interval), interval_(interval) {}
  // True when the caller may log now. `swallowed` is set to the number of lines kept back since the last one
  // let through.
  bool Allow(Time now, uint64_t* swallowed);

 private:
  int per_interval_;
  Duration interval_;
  Time window_start_{};
  int used_ = 0;
  uint64_t swallowed_ = 0;
};

// For the end of that line: " (3 more lines kept back)", or nothing.
std::string KeptBack(uint64_t swallowed);

}  // namespace sluice
