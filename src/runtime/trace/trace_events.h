// The events of a timeline, and their text in Chrome's trace format ("Trace Event Format", Google 2016).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::runtime {

struct TraceEvent {
  std::string track;  // the line on which it is shown
  std::string name;
  Time began, ended;
};

// Returns the file's text: a process of this name and number with a track for each name, in the order of the
// names. `left_out` is the number of events that were not kept.
std::string TraceText(const std::string& process, int64_t pid, const std::vector<TraceEvent>& events,
                      int64_t left_out);

}  // namespace sluice::runtime
