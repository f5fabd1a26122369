// The callbacks of calls that have ended. They run at the end of a call from outside, when the client's
// state is consistent, because a callback may call the client.
//
// Thread safety: the client's loop calls everything here.
#pragma once

#include <utility>
#include <vector>

#include "kvstore/membership/control_requests.h"
#include "worker/operation.h"

namespace sluice::worker {

class CompletionQueue {
 public:
  using Completion = membership::ControlRequests::Completion;

  void Add(Completion completion) { waiting_.push_back(std::move(completion)); }
  // Moves `callback`, which may be null, to the queue, to be called with `status`.
  void Add(Callback& callback, const Status& status) {
    if (!callback) return;
    waiting_.push_back([callback = std::exchange(callback, nullptr), status = Status(status)](
                           Time, transport::Network&) mutable { callback(status); });
  }
  // The queue's end, to which ControlRequests appends.
  std::vector<Completion>* list() { return &waiting_; }
  // Calls what is queued, and what is queued meanwhile. Whatever is called from outside does this last.
  void Run(Time now, transport::Network& network) {
    while (!waiting_.empty()) {
      auto running = std::exchange(waiting_, std::move(spare_));
      for (Completion& completion : running) completion(now, network);
      running.clear();
      spare_ = std::move(running);
    }
  }

 private:
  std::vector<Completion> waiting_;
  std::vector<Completion> spare_;  // empty; its memory is reused
};

}  // namespace sluice::worker
