// Events that complete as operations end.
#pragma once

#include <utility>

#include "base/result.h"
#include "tensor/stream.h"

namespace sluice::worker {

// Completes an event as an operation ended.
struct Completes {
  void operator()(const Status& status) const;
  Event event;
};

// An operation that will never be: this worker has left its job.
void CompleteUnasked(const Event& event);

// The same, and where nobody calls it, because the operation was never asked for, at its end.
class CompletesOnce {
 public:
  explicit CompletesOnce(Event event) : event_(std::move(event)) {}
  CompletesOnce(CompletesOnce&&) = default;
  CompletesOnce& operator=(CompletesOnce&&) = delete;
  ~CompletesOnce() {
    if (!event_.Done()) CompleteUnasked(event_);
  }
  void operator()(const Status& status) { Completes{std::exchange(event_, Event())}(status); }

 private:
  Event event_;  // done once it has been called
};

}  // namespace sluice::worker
