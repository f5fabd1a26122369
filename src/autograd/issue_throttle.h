// How far a thread may issue ahead of the devices: each Backward waits until the one before it has ended.
// What comes in between (updates, the next forward) is issued ahead, and a loop that reads nothing holds the
// activations of two steps and not of all.
//
// Thread safety: one thread's.
#pragma once

#include "base/inline_vector.h"
#include "tensor/stream.h"

namespace sluice::autograd {

class IssueThrottle {
 public:
  // A program may make one pass wait for what it issues after the next: it is held up by `patience` each
  // time, and not for ever.
  explicit IssueThrottle(Duration patience = 1s) : patience_(patience) {}
  // Before a pass.
  void Await();
  // `end` of an operation of the pass: the last of each stream counts.
  void Note(const Event& end);

 private:
  const Duration patience_;
  InlineVector<Event, 4> ends_;
};

}  // namespace sluice::autograd
