// Callbacks that complete an event when an operation ends.
#pragma once

#include <exception>
#include <utility>

#include "base/result.h"
#include "tensor/stream.h"

namespace sluice::worker {

struct Operation;

// Completes an event, with an error if the operation has failed. The error's
// text begins with the event's name.
struct EventCompleter {
  void operator()(const Status& status) const;
  Event event;
};

// Completes the event of an operation that never starts, because this worker
// has left its job, with kCancelled.
void CompleteAbandoned(const Event& event);

// Tells each key of an operation that is not submitted why.
void FailKeys(Operation& op, const std::exception_ptr& error);

// As EventCompleter. If it is destroyed without having been called, because the operation was never started,
// it completes the event with CompleteAbandoned.
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
  Event event_;  // replaced by a completed event when called
};

}  // namespace sluice::worker
