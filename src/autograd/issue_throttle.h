// Limits how far a thread issues work ahead of its devices: each Backward waits until the previous one has
// ended on the devices. Updates and the next forward are still issued ahead, so a training loop that reads no
// values holds the activations of two steps, not of all steps.
//
// Thread safety: none; each thread has its own.
#pragma once

#include "base/inline_vector.h"
#include "tensor/stream.h"

namespace sluice::autograd {

class IssueThrottle {
 public:
  // A program may make one pass depend on work that it issues only after the next pass. Await would then wait
  // forever, so it gives up on each stream after `patience`.
  explicit IssueThrottle(Duration patience = 1s) : patience_(patience) {}
  // Waits until the operations noted so far have ended, at most `patience` for each, and forgets them.
  // Backward calls it before each pass.
  void Await();
  // Notes the end of an operation of this pass. Only the last one of each stream is kept.
  void Note(const Event& end);

 private:
  const Duration patience_;
  InlineVector<Event, 4> ends_;
};

}  // namespace sluice::autograd
