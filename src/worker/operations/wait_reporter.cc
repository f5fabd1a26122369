#include "worker/operations/wait_reporter.h"

#include "base/log.h"
#include "base/strings.h"

namespace sluice::worker {

bool WaitReporter::BeginReport(Time now) {
  if (now < next_) return false;
  next_ = Time::max();
  return true;
}

void WaitReporter::Print(Time now) {
  for (const std::string& line : reports_.Take(now))
    print_ ? print_(line) : static_cast<void>(LOG(INFO) << WrapLogged(line));
  next_ = std::min(next_, reports_.Next());
}

}  // namespace sluice::worker
