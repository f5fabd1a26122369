#include "autograd/issue_throttle.h"

#include <algorithm>

namespace sluice::autograd {

void IssueThrottle::Await() {
  for (const Event& end : ends_) end.DoneWithin(patience_);
  ends_.clear();
}

void IssueThrottle::Note(const Event& end) {
  const auto same = std::find_if(ends_.begin(), ends_.end(),
                                 [&](const Event& other) { return other.stream() == end.stream(); });
  if (same == ends_.end()) {
    ends_.push_back(end);
  } else {
    *same = end;
  }
}

}  // namespace sluice::autograd
