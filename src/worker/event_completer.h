// Events that complete as operations end.
#pragma once

#include <utility>

#include "base/result.h"
#include "tensor/stream.h"

namespace sluice::worker {

// EventCompleter an event as an operation ended.
struct EventCompleter {
  void operator()(const Status& status) const;
  Event event;
};

// An operation that will never be: this worker has left its job.
void CompleteAbandoned(const Event& event);

// The same, and where nobody calls it, because the operation was never asked for, at its end.
class ScopedCompleter {
 public:
  explicit ScopedCompleter(Event event) : event_(std::move(event)) {}
  ScopedCompleter(ScopedCompleter&&) = default;
  ScopedCompleter& operator=(ScopedCompleter&&) = delete;
  ~ScopedCompleter() {
    if (!event_.Done()) CompleteAbandoned(event_);
  }
  void operator()(const Status& status) { EventCompleter{std::exchange(event_, Event())}(status); }

 private:
  Event event_;  // done once it has been called
};

}  // namespace sluice::worker
