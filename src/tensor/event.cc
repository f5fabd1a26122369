// Event, a one-shot completion with an error and callbacks. Operations of streams and stores each make
// one, so making, waiting and completing are kept cheap: one allocation, a futex and no condition
// variable, room for the usual number of callbacks. Invariant: `error` is written before `done` or
// `announced` is set, and never afterwards, so that a thread that sees one of them may read it without the
// lock.
// Events are waited for and completed on any thread.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/pool_allocator.h"
#include "base/quick_mutex.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/stream.h"

namespace sluice {

struct Event::State {
  State(Label name, std::shared_ptr<LoopDriver> who, const Stream* on, uint64_t number,
        const std::shared_ptr<Allocator>& memory)
      : what(std::move(name)),
        by(std::move(who)),
        stream(on),
        place(number),
        more(MemoryOf<Listener>(memory)) {}
  const Label what;
  const std::shared_ptr<LoopDriver> by;
  const Stream* const stream;
  const uint64_t place;
  std::atomic<uint32_t> done = 0;  // 1: done, and `error` does not change any more
  std::atomic<uint32_t> waiters = 0;
  std::atomic<bool> announced = false;  // `error` does not change any more, though `done` may be 0
  std::exception_ptr error;
  QuickMutex mutex;
  struct Listener {
    Callback callback;
    bool quiet;
  };
  // Most events have at most this many callbacks.
  static constexpr size_t kFew = 2;
  using Few = InlineVector<Listener, kFew>;
  using More = std::vector<Listener, MemoryOf<Listener>>;
  // Callbacks in the order of OnDone: first `few`, then `more`.
  Few few SLUICE_GUARDED_BY(mutex);
  More more SLUICE_GUARDED_BY(mutex);
};

namespace {

// Waits on the atomic word itself: a condition variable would cost two more system calls for every wait.
void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, Duration timeout) {
  static_assert(sizeof *word == sizeof(uint32_t));
  const timespec limit = {static_cast<time_t>(timeout.count() / 1'000'000'000),
                          static_cast<long>(timeout.count() % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &limit, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

Event Event::Make(Label what, std::shared_ptr<LoopDriver> by) {
  return Make(std::move(what), std::move(by), HeapAllocator());
}

Event Event::Make(Label what, std::shared_ptr<LoopDriver> by, const std::shared_ptr<Allocator>& memory) {
  Event event;
  event.state_ = std::allocate_shared<State>(MemoryOf<State>(memory), std::move(what), std::move(by), nullptr,
                                             0, memory);
  return event;
}

Event Event::Make(Label what, const Stream& stream, const std::shared_ptr<Allocator>& memory,
                  uint64_t place) {
  Event event;
  event.state_ =
      std::allocate_shared<State>(MemoryOf<State>(memory), std::move(what), nullptr, &stream, place, memory);
  return event;
}

std::string_view Event::what() const {
  return state_ == nullptr ? "nothing" : state_->what.text();
}

const Stream* Event::stream() const {
  return state_ == nullptr ? nullptr : state_->stream;
}

uint64_t Event::place() const {
  return state_ == nullptr ? 0 : state_->place;
}

bool Event::Done() const {
  return state_ == nullptr || state_->done != 0;
}

bool Event::Succeeded() const {
  return Done() && error() == nullptr;
}

bool Event::DoneWithin(Duration timeout) const {
  if (Done()) return true;
  if (InForkedChild()) RequireNotForkedChild(StrCat(state_->what, " will not end"));
  const SteadyClock clock;
  const Time end = clock.Now() + timeout;
  if (state_->by != nullptr) {
    state_->by->DriveUntil([this] { return Done(); }, end);
    if (Done()) return true;
  }
  ++state_->waiters;
  Duration left = end - clock.Now();
  while (!Done() && left > Duration::zero()) {
    FutexWait(&state_->done, 0, left);
    left = end - clock.Now();
  }
  --state_->waiters;
  return Done();
}

void Event::WaitQuietly(Duration timeout) const {
  if (!DoneWithin(timeout))
    throw Error(ErrorCode::kDeadlineExceeded, StrCat("waited ", ToSeconds(timeout), " s for ", state_->what));
}

void Event::Wait(Duration timeout) const {
  WaitQuietly(timeout);
  if (const std::exception_ptr failure = error()) std::rethrow_exception(failure);
}

std::exception_ptr Event::error() const {
  return state_ == nullptr || quiet_ || !Done() ? nullptr : state_->error;
}

void Event::Announce(std::exception_ptr error) const {
  if (state_ == nullptr) return;
  state_->error = std::move(error);
  state_->announced = true;
}

std::exception_ptr Event::KnownError() const {
  if (state_ == nullptr || quiet_) return nullptr;
  return state_->announced || Done() ? state_->error : nullptr;
}

Event Event::Quietly() const {
  Event quiet = *this;
  quiet.quiet_ = true;
  return quiet;
}

void Event::Complete(std::exception_ptr error) const {
  if (state_ == nullptr) return;
  const std::shared_ptr<State> state = state_;  // a waiter that wakes up may destroy this handle
  State::Few few;
  std::optional<State::More> more;
  {
    const MutexLock lock(state->mutex);
    SLUICE_CHECK(state->done == 0) << state->what << " completed twice";
    if (!state->announced) state->error = std::move(error);
    few = std::move(state->few);
    if (!state->more.empty()) more = std::move(state->more);
    state->done = 1;
  }
  if (state->waiters > 0) FutexWakeAll(&state->done);
  const auto notify = [&](State::Listener& listener) {
    listener.callback(listener.quiet ? nullptr : state->error);
  };
  std::ranges::for_each(few, notify);
  if (more) std::ranges::for_each(*more, notify);
}

void Event::OnDone(Callback callback) const {
  if (state_ != nullptr) {
    const MutexLock lock(state_->mutex);
    if (!Done()) {
      State::Listener listener{std::move(callback), quiet_};
      state_->few.size() < State::kFew ? state_->few.push_back(std::move(listener))
                                       : state_->more.push_back(std::move(listener));
      return;
    }
  }
  callback(error());
}

std::exception_ptr OfOperation(std::string_view name, const std::exception_ptr& error) {
  const auto named = [name](ErrorCode code, const std::string& what) {
    return std::make_exception_ptr(
        Error(code, what.starts_with("operation ") ? what : StrCat("operation ", name, ": ", what)));
  };
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return named(e.code(), e.what());
  } catch (const std::bad_alloc& e) {
    return named(ErrorCode::kResourceExhausted, WithLimits(e));
  } catch (const std::exception& e) {
    return named(ErrorCode::kUnavailable, e.what());
  } catch (...) {
    return named(ErrorCode::kUnavailable, "unknown error");
  }
}

}  // namespace sluice
