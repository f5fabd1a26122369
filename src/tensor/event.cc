#include <condition_variable>
#include <mutex>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/stream.h"

namespace sluice {

struct Event::State {
  explicit State(std::string name) : what(std::move(name)) {}
  const std::string what;
  std::mutex mutex;
  std::condition_variable completed;
  // Guarded by mutex.
  bool done = false;
  std::exception_ptr error;
  std::vector<Callback> callbacks;
};

Event Event::Make(std::string what) {
  Event event;
  event.state_ = std::make_shared<State>(std::move(what));
  return event;
}

bool Event::Done() const {
  if (state_ == nullptr) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Event::WaitQuietly(Duration timeout) const {
  if (state_ == nullptr) return;
  std::unique_lock lock(state_->mutex);
  if (state_->completed.wait_for(lock, timeout, [this] { return state_->done; })) return;
  throw Error(ErrorCode::kDeadlineExceeded, StrCat("waited ", ToSeconds(timeout), " s for ", state_->what));
}

void Event::Wait(Duration timeout) const {
  WaitQuietly(timeout);
  if (const std::exception_ptr failure = error()) std::rethrow_exception(failure);
}

std::exception_ptr Event::error() const {
  if (state_ == nullptr) return nullptr;
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

void Event::Complete(std::exception_ptr error) const {
  if (state_ == nullptr) return;
  const std::shared_ptr<State> state = state_;  // a waiter may let go of this handle
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(state->mutex);
    SLUICE_CHECK(!state->done) << state->what << " completed twice";
    state->done = true;
    state->error = std::move(error);
    callbacks.swap(state->callbacks);
  }
  state->completed.notify_all();
  for (const Callback& callback : callbacks) callback(state->error);
}

void Event::OnDone(Callback callback) const {
  if (state_ != nullptr) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->done) {
      state_->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback(state_ == nullptr ? nullptr : state_->error);
}

}  // namespace sluice
