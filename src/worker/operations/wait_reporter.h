// Reports the operations and requests that wait for long: when the next line is due, and where lines go.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "kvstore/membership/wait_reports.h"

namespace sluice::worker {

class WaitReporter {
 public:
  // `print` takes the lines; null: they go to the log.
  explicit WaitReporter(std::function<void(const std::string& line)> print) : print_(std::move(print)) {}

  // Something began to wait at `since`; the next report is no later than when it is old enough for a line.
  void Watch(Time since) { next_ = std::min(next_, since + membership::WaitReports::kFirst); }
  // Returns whether a report is due. Then add to reports() all that waits, and call Print.
  bool BeginReport(Time now);
  membership::WaitReports& reports() { return reports_; }
  void Print(Time now);
  Time NextTimer() const { return next_; }

 private:
  const std::function<void(const std::string& line)> print_;
  membership::WaitReports reports_;
  Time next_ = Time::max();  // a lower bound of the time at which the next line is due
};

}  // namespace sluice::worker
