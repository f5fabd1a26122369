// What has been sent to one shard and not been answered: repeated, with growing pauses, until it is.
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
    uint64_t in_flight = 0;  // bytes on their way to the shard when it was sent, with its own
    Time next_repeat{};
    int repeats = 0;
  };

  OutstandingRequests(Duration timeout, const std::shared_ptr<Allocator>& records)
      : timeout_(timeout), open_(MemoryOf<Request>(records)) {}

  void Add(Time now, uint64_t id, uint64_t in_flight, PartOps parts);
  Request* Find(uint64_t id);
  // Some of what was asked for has come, and the rest is behind it: it is not repeated for a while.
  void OnProgress(Time now, Request& request) const {
    request.next_repeat = std::max(request.next_repeat, now + timeout_);
  }
  void Erase(uint64_t id) { open_.erase(id); }
  // OutstandingRequests whose time has come; their next repeat is set. Finished ones are forgotten.
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
  Time next_ = Time::max();  // a lower bound of the next repeat
};

}  // namespace sluice::worker
