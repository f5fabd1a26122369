#include "kvstore/membership/wait_reports.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace sluice::membership {
namespace {

std::string Line(Time now, const std::string& whom, const std::string& what, Time since, Time deadline,
                 size_t count) {
  const auto seconds = [since](Time until) { return std::llround(ToSeconds(until - since)); };
  return StrCat("waiting for ", whom, ", for ", seconds(now), " s so far: ", what,
                count > 1 ? StrCat(" and ", Counted(static_cast<int64_t>(count) - 1, "more operation")) : "",
                deadline == Time::max() ? "" : StrCat("; gives up after ", seconds(deadline), " s"));
}

}  // namespace

std::string LimitText(Time since, Time deadline) {
  // An operation may begin a moment after the call whose limit it has; hence the rounding.
  const double seconds = ToSeconds(deadline - since), step = seconds < 1 ? 0.01 : 0.1;
  return StrCat("; the limit is ", std::round(seconds / step) * step,
                " s (SLUICE_OPERATION_TIMEOUT, KVStore::SetTimeout or the call's own timeout)");
}

void WaitReports::Add(Time now, const std::string& whom, Time since, Time deadline,
                      FunctionRef<std::string()> what) {
  if (now < since + kFirst) {
    youngest_ = std::min(youngest_, since + kFirst);
    return;
  }
  const auto [it, is_new] = waits_.try_emplace(whom);
  Waits& waits = it->second;
  if (!is_new) {
    ++waits.count;
    waits.since = std::min(waits.since, since);
    waits.deadline = std::min(waits.deadline, deadline);
    return;
  }
  waits = {what(), since, deadline};
}

std::vector<std::string> WaitReports::Take(Time now) {
  std::vector<std::string> lines;
  next_ = std::exchange(youngest_, Time::max());
  for (const auto& [whom, waits] : waits_) {
    LineSchedule& schedule = schedules_[whom];
    if (now >= schedule.next) {
      lines.push_back(Line(now, whom, waits.what, waits.since, waits.deadline, waits.count));
      schedule.next = now + schedule.pause;
      schedule.pause = std::min(2 * schedule.pause, kLongestPause);
    }
    next_ = std::min(next_, schedule.next);
  }
  waits_.clear();
  std::erase_if(schedules_,
                [now](const auto& entry) { return now > entry.second.next + entry.second.pause; });
  return lines;
}

}  // namespace sluice::membership
