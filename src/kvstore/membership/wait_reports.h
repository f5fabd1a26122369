// Log lines that say which operation waits for which nodes: the first after ten
// seconds, the next ones at growing intervals. Operations that wait for the same
// nodes share one line. Part of a node's machine; used on its loop's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"

namespace sluice::membership {

class WaitReports {
 public:
  // Shorter waits are not reported.
  static constexpr Duration kFirst = 10s;
  static constexpr Duration kLongestPause = std::chrono::minutes(10);

  // Adds an operation that is not done yet and began at `since`. `deadline` is Time::max() when
  // there is none. `what` names the operation; it is called only when the name may be printed.
  void Add(Time now, const std::string& whom, Time since, Time deadline, FunctionRef<std::string()> what);
  // Returns the lines that are due, for the operations added since the last call.
  std::vector<std::string> Take(Time now);
  // The time at which Take may next have a line for the operations that were added before its last call.
  Time Next() const { return next_; }

 private:
  struct Waits {
    std::string what;
    Time since, deadline;
    size_t count = 1;
  };
  struct LineSchedule {
    Time next{};
    Duration pause = kFirst;
  };

  std::map<std::string, Waits> waits_;  // by the nodes waited for
  std::map<std::string, LineSchedule>
      schedules_;  // by the nodes waited for; kept for a while after the last line
  // When the next operation that is too young for a line becomes old enough.
  Time youngest_ = Time::max();
  Time next_ = Time::max();
};

// The end of a message about an operation that missed
// its deadline: how long the limit was and what sets it.
std::string LimitText(Time since, Time deadline);

}  // namespace sluice::membership
