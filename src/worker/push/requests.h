// What has been sent to one shard and not been answered: repeated, with growing pauses, until it is.
#pragma once

#include <map>
#include <vector>

#include "worker/operation.h"

namespace sluice::worker {

class Requests {
 public:
  struct Request {
    std::vector<PartOpPtr> parts;
    Time next_repeat{};
    int repeats = 0;
  };

  explicit Requests(Duration timeout) : timeout_(timeout) {}

  void Add(Time now, uint64_t id, std::vector<PartOpPtr> parts);
  Request* Find(uint64_t id);
  void Erase(uint64_t id) { open_.erase(id); }
  // Requests whose time has come; their next repeat is set. Finished ones are forgotten.
  std::vector<uint64_t> Due(Time now);
  Time NextTimer() const { return next_; }
  size_t size() const { return open_.size(); }
  const std::map<uint64_t, Request>& open() const { return open_; }
  void Clear() {
    open_.clear();
    next_ = Time::max();
  }

  static bool Finished(const Request& request);

 private:
  const Duration timeout_;
  std::map<uint64_t, Request> open_;
  Time next_ = Time::max();  // a lower bound of the next repeat
};

}  // namespace sluice::worker
