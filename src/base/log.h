// Logging through glog, to standard error only. Code uses glog's LOG(INFO|WARNING|ERROR). VLOG(1) reports
// connections, membership, barriers and rounds (PS_VERBOSE=1), VLOG(2) every message (PS_VERBOSE=2). A line
// begins with the time, and a warning or error then with "WARNING:" or "ERROR:".
#pragma once

#include <glog/logging.h>

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace sluice {

// Sets up glog. main() or sluice::Init calls it before threads start; a second call
// changes only the verbosity.
void InitLogging(const std::string& program, int verbosity);

// Limits a kind of log line to `per_interval` lines each `interval`, and counts the lines that it suppressed.
// Not thread-safe: it has one owner.
class LogLimiter {
 public:
  LogLimiter(int per_interval, Duration interval) : per_interval_(per_interval), interval_(interval) {}
  // Returns whether the caller may log now; if so, sets `suppressed` to the number of lines suppressed
  // since the last line that was allowed.
  bool Allow(Time now, uint64_t* suppressed);

 private:
  int per_interval_;
  Duration interval_;
  Time window_start_{};
  int used_ = 0;
  uint64_t swallowed_ = 0;
};

// Returns the end of that line: " (3 more lines kept back)", or nothing for 0.
std::string SuppressedText(uint64_t suppressed);

}  // namespace sluice
