// Events and streams, which order the work on devices. Everything here may be used from any thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/inline_function.h"
#include "base/inline_vector.h"
#include "base/label.h"

namespace sluice {

class Stream;

// A handle to something that happens once, such as the end of an operation; copies
// share it. A default-constructed event is done. An event may carry the error that
// the operation failed with; Wait throws it.
class Event {
 public:
  Event() = default;
  // The component that completes an event, such as a network loop, may do part of its
  // work on a thread that waits for the event.
  class LoopDriver {
   public:
    virtual ~LoopDriver() = default;
    // Works until `done` returns true or until `deadline`; returns at once when it has nothing to do.
    virtual void DriveUntil(const std::function<bool()>& done, Time deadline) = 0;
  };
  // Makes an event that is not done. `what` names it in messages ("waited 5 s for WHAT").
  // `by`, if not null, is called by waiting threads.
  static Event Make(Label what, std::shared_ptr<LoopDriver> by = nullptr);
  // The same, allocated from `memory`.
  static Event Make(Label what, std::shared_ptr<LoopDriver> by, const std::shared_ptr<Allocator>& memory);
  // Makes the event that ends an operation on `stream`, allocated from `memory`; `place` is the operation's
  // number there, if the stream counts. For implementations of Stream.
  static Event Make(Label what, const Stream& stream, const std::shared_ptr<Allocator>& memory,
                    uint64_t place = 0);

  std::string_view what() const;
  // The stream whose operation this event ends; null if there is none. Events of one stream complete in
  // the order in which their operations were enqueued.
  const Stream* stream() const;
  uint64_t place() const;  // as Make had it
  bool Done() const;
  bool Succeeded() const;  // done, and carries no error
  // Waits until the event is done or `timeout` is over; returns whether it is done.
  bool DoneWithin(Duration timeout) const;
  // Waits until the event is done. Throws the error that it carries, or, after `timeout`,
  // Error(kDeadlineExceeded) with the event's name. No timeout is needed for events of the
  // library: a device's work always ends, and an operation of a store ends at its own deadline,
  // with an error that says which key waits for which peer.
  void Wait(Duration timeout = kNoLimit) const;
  // As Wait, but does not throw the error that the event carries; it does throw Error(kDeadlineExceeded).
  void WaitQuietly(Duration timeout = kNoLimit) const;
  std::exception_ptr error() const;  // null while not done
  // Says before the event is done with which error it will complete; Complete is called with it later. For
  // streams that issue work before the work before it is done.
  void Announce(std::exception_ptr error) const;
  // Returns the error that was announced or is carried; null for an event that shows none.
  std::exception_ptr KnownError() const;
  // Returns a handle to the same event that shows no error, for a caller
  // that needs its end and not its success.
  Event Quietly() const;
  bool quiet() const { return quiet_; }

  // Completes the event, wakes the waiting threads and runs the callbacks on the calling thread. May be
  // called once only: a second call aborts the process. Does nothing on a default-constructed event.
  void Complete(std::exception_ptr error = nullptr) const;
  // Calls `callback` with the carried error, or null: on the calling thread if the event is done already,
  // else on the thread that completes it. A callback must not block or throw.
  using Callback = InlineFunction<void(const std::exception_ptr& error), 48>;
  void OnDone(Callback callback) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool quiet_ = false;
};

using Events = InlineVector<Event, 12>;

// Returns `error` as the sluice::Error of the operation `name`: with "operation NAME: " before its message,
// unless the message begins so already, since the operation that failed first is the one to name.
std::exception_ptr OfOperation(std::string_view name, const std::exception_ptr& error);

// The work queue of one device, in order. Work starts when everything enqueued before it on
// this stream and all events of `after` are done. If one of `after` carries an error, the work
// is skipped and its event carries that error on.
class Stream {
 public:
  virtual ~Stream() = default;
  // The size has room for a kernel's arguments and its arrays without a
  // heap allocation (Launch in storage.cc).
  using Work = InlineFunction<void(), 704>;
  // Enqueues `work` and returns the event that ends it. `what` names the operation in errors and messages. An
  // exception thrown by `work` becomes the error of the event.
  virtual Event Enqueue(Label what, std::span<const Event> after, Work work) = 0;
  // Waits for everything enqueued so far; throws Error(kDeadlineExceeded) after `timeout`.
  virtual void Drain(Duration timeout = kNoLimit) = 0;
};

}  // namespace sluice
