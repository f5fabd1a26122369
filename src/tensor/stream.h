// Events and streams: how work on a device is ordered.
//
// Thread safety: everything here may be used from any thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace sluice {

// Something that will have happened once: a shared handle. A default-made event has happened. It may carry
// the error that kept the work from being done; whoever waits gets it.
class Event {
 public:
  Event() = default;
  // Who completes events may take help from threads that wait for them.
  class Helped {
   public:
    virtual ~Helped() = default;
    // Returns when `done` holds, at `deadline`, or at once when there is nothing to help with.
    virtual void Help(const std::function<bool()>& done, Time deadline) = 0;
  };
  // Not yet happened; `what` says in messages what is being waited for.
  static Event Make(std::string what, std::shared_ptr<Helped> by = nullptr);

  const std::string& what() const;
  bool Done() const;
  bool Succeeded() const;  // done, and carries no error
  // Throws the carried error, or Error(kDeadlineExceeded) naming what was waited for.
  void Wait(Duration timeout = kTimeout) const;
  // As Wait, but does not throw what the event carries.
  void WaitQuietly(Duration timeout = kTimeout) const;
  std::exception_ptr error() const;  // null while not done
  // The same event for those who need its end and not its success: this handle shows no error.
  Event Quietly() const;

  // Once. Wakes waiters and runs the callbacks here.
  void Complete(std::exception_ptr error = nullptr) const;
  // With the carried error, if any. Runs at once when done already; else on the thread that completes the
  // event. Must not block or throw.
  using Callback = std::function<void(const std::exception_ptr& error)>;
  void OnDone(Callback callback) const;

  static constexpr Duration kTimeout = std::chrono::minutes(10);

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool quiet_ = false;
};

// An in-order queue of one device. Work starts when everything before it on this stream and all of `after`
// are done. If one of `after` carries an error the work is skipped and its event carries that error on.
class Stream {
 public:
  virtual ~Stream() = default;
  // `what` names the operation in errors and messages. An exception of `work` ends up in the event.
  virtual Event Enqueue(std::string_view what, std::span<const Event> after, std::function<void()> work) = 0;
  // Everything enqueued so far.
  virtual void Drain(Duration timeout = Event::kTimeout) = 0;
};

}  // namespace sluice
