// The requests to one shard that have not been answered. They are repeated,
// with growing pauses, until they are.
#pragma once

#include <algorithm>
#include <vector>

#include "worker/operation.h"

namespace sluice::worker {

class OutstandingRequests {
 public:
  struct Request {
    PartOps parts;
    Time sent{};
    uint64_t in_flight = 0;  // bytes in flight when it was sent, its own included; 0: nothing to measure
    Time next_repeat{};
    int repeats = 0;
  };

  OutstandingRequests(Duration timeout, const std::shared_ptr<Allocator>& records)
      : timeout_(timeout), open_(MemoryOf<Request>(records)) {}

  void Add(Time now, uint64_t id, uint64_t in_flight, PartOps parts);
  Request* Find(uint64_t id);
  // Part of the answer has arrived and the rest follows it, so the request is not repeated for `timeout`.
  void OnProgress(Time now, Request& request) const {
    request.next_repeat = std::max(request.next_repeat, now + timeout_);
  }
  void Erase(uint64_t id) { open_.erase(id); }
  // Returns the ids of the requests that are due for a repeat, and sets the time of their next one: after
  // 2, 4, then always 8 times `timeout`. Drops finished requests.
  std::vector<uint64_t> Due(Time now);
  Time NextTimer() const { return next_; }
  size_t size() const { return open_.size(); }
  const RecordMap<uint64_t, Request>& open() const { return open_; }
  void Clear() {
    open_.clear();
    next_ = Time::max();
  }

  static bool Finished(const Request& request);

 private:
  const Duration timeout_;
  RecordMap<uint64_t, Request> open_;
  Time next_ = Time::max();  // a lower bound of the time of the next repeat
};

}  // namespace sluice::worker
