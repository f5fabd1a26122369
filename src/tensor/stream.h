// Events and streams: how work on a device is ordered.
//
// Thread safety: everything here may be used from any thread.
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

// Something that will have happened once: a shared handle. A default-made event has happened. It may carry
// the error that kept the work from being done; whoever waits gets it.
class Event {
 public:
  Event() = default;
  // Who completes events may take help from threads that wait for them.
  class LoopDriver {
   public:
    virtual ~LoopDriver() = default;
    // Returns when `done` holds, at `deadline`, or at once when there is nothing to help with.
    virtual void DriveUntil(const std::function<bool()>& done, Time deadline) = 0;
  };
  // Not yet happened; `what` says in messages what is being waited for.
  static Event Make(Label what, std::shared_ptr<LoopDriver> by = nullptr);
  // The same in memory of `memory`.
  static Event Make(Label what, std::shared_ptr<LoopDriver> by, const std::shared_ptr<Allocator>& memory);
  // The end of an operation on `stream`, in memory of `memory`: for streams.
  static Event Make(Label what, const Stream& stream, const std::shared_ptr<Allocator>& memory);

  std::string_view what() const;
  // Whose operation it ends; null: none's. Those of one stream happen in the order they were enqueued.
  const Stream* stream() const;
  bool Done() const;
  bool Succeeded() const;                   // done, and carries no error
  bool DoneWithin(Duration timeout) const;  // waits until it is, or time is over
  // Throws the carried error, or Error(kDeadlineExceeded) naming what was waited for. Without a timeout it
  // takes what it takes: a device's work ends by itself, however long it is, and an operation of a store ends
  // at a deadline of its own, with an error that says which key waits for whom.
  void Wait(Duration timeout = kNoLimit) const;
  // As Wait, but does not throw what the event carries.
  void WaitQuietly(Duration timeout = kNoLimit) const;
  std::exception_ptr error() const;  // null while not done
  // The same event for those who need its end and not its success: this handle shows no error.
  Event Quietly() const;
  bool quiet() const { return quiet_; }

  // Once. Wakes waiters and runs the callbacks here.
  void Complete(std::exception_ptr error = nullptr) const;
  // With the carried error, if any. Runs at once when done already; else on the thread that completes the
  // event. Must not block or throw.
  using Callback = InlineFunction<void(const std::exception_ptr& error), 48>;
  void OnDone(Callback callback) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool quiet_ = false;
};

using Events = InlineVector<Event, 12>;

// `error` as that of an operation: "operation NAME: " before its message, unless one is named there already,
// since the operation that failed first is the one to name.
std::exception_ptr OfOperation(std::string_view name, const std::exception_ptr& error);

// An in-order queue of one device. Work starts when everything before it on this stream and all of `after`
// are done. If one of `after` carries an error the work is skipped and its event carries that error on.
class Stream {
 public:
  virtual ~Stream() = default;
  // With room for a kernel's arguments and its arrays.
  using Work = InlineFunction<void(), 704>;
  // `what` names the operation in errors and messages. An exception of `work` ends up in the event.
  virtual Event Enqueue(Label what, std::span<const Event> after, Work work) = 0;
  // Everything enqueued so far.
  virtual void Drain(Duration timeout = kNoLimit) = 0;
};

}  // namespace sluice
