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
  std::vector<std::function<void()>> callbacks;
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
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(state_->mutex);
    SLUICE_CHECK(!state_->done) << state_->what << " completed twice";
    state_->done = true;
    state_->error = std::move(error);
    callbacks.swap(state_->callbacks);
    state_->completed.notify_all();
  }
  for (const auto& callback : callbacks) callback();
}

void Event::OnDone(std::function<void()> callback) const {
  if (state_ != nullptr) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->done) {
      state_->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

}  // namespace sluice
