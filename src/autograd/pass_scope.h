// One backward pass in several calls of Backward.
#pragma once

namespace sluice::autograd {

// While it exists, the calls of Backward of this thread are one pass: the first one alone waits for the pass
// before (issue_throttle.h). For pipelines, whose stages go backward one after the other.
class PassScope {
 public:
  PassScope();
  ~PassScope();
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  const bool outer_;  // it is not within another one
};

// While it exists, the calls of Backward of this thread are the last ones of the pass that add to the
// gradients they reach.
class LastAdditionScope {
 public:
  explicit LastAdditionScope(bool last);  // has no effect without `last`
  ~LastAdditionScope();
  LastAdditionScope(const LastAdditionScope&) = delete;
  LastAdditionScope& operator=(const LastAdditionScope&) = delete;

 private:
  const bool before_;
};

// Returns, within a gradient hook, whether a gradient that accumulates (kAdd) is known to be complete.
bool InLastAddition();

}  // namespace sluice::autograd
