// Lines that say who waits for whom: the first after ten seconds, the next ones at growing intervals. One
// line for each of those who are waited for, however many operations wait. Part of a node's machine; one
// thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"

namespace sluice::membership {

class WaitReports {
 public:
  // A wait that is shorter is no news.
  static constexpr Duration kFirst = 10s;
  static constexpr Duration kLongestPause = std::chrono::minutes(10);

  // Something that is not done yet and began at `since`; `deadline` is Time::max() where there is none.
  // `what` names it and is asked for only where it may appear.
  void Add(Time now, const std::string& whom, Time since, Time deadline, FunctionRef<std::string()> what);
  // The lines that are due, of what was added since the last call.
  std::vector<std::string> Take(Time now);
  // When Take may have a line for what was added before its last call.
  Time Next() const { return next_; }

 private:
  struct Waits {
    std::string what;
    Time since, deadline;
    size_t count = 1;
  };
  struct Pace {
    Time next{};
    Duration pause = kFirst;
  };

  std::map<std::string, Waits> waits_;  // by whom they wait for
  std::map<std::string, Pace> paces_;   // the same; kept a while after the last line
  Time youngest_ = Time::max();         // when the next of those too young for a line is old enough
  Time next_ = Time::max();
};

// The end of a message that something was not done by its deadline: how long that was, and what sets it.
std::string LimitText(Time since, Time deadline);

}  // namespace sluice::membership
