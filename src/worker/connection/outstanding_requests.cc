#include "worker/connection/outstanding_requests.h"

#include <algorithm>

namespace sluice::worker {

void OutstandingRequests::Add(Time now, uint64_t id, uint64_t in_flight, PartOps parts) {
  open_[id] = Request{std::move(parts), now, in_flight, now + timeout_, 0};
  next_ = std::min(next_, now + timeout_);
}

OutstandingRequests::Request* OutstandingRequests::Find(uint64_t id) {
  const auto it = open_.find(id);
  return it == open_.end() ? nullptr : &it->second;
}

bool OutstandingRequests::Finished(const Request& request) {
  return std::all_of(request.parts.begin(), request.parts.end(),
                     [](const PartOpPtr& op) { return op->finished; });
}

std::vector<uint64_t> OutstandingRequests::Due(Time now) {
  std::vector<uint64_t> due;
  std::erase_if(open_, [](const auto& entry) { return Finished(entry.second); });
  next_ = Time::max();
  for (auto& [id, request] : open_) {
    if (now >= request.next_repeat) {
      request.repeats = std::min(request.repeats + 1, 3);
      request.next_repeat = now + timeout_ * (1 << request.repeats);
      due.push_back(id);
    }
    next_ = std::min(next_, request.next_repeat);
  }
  return due;
}

}  // namespace sluice::worker
