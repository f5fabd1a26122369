// The workers of the job, as the newest roster lists them. A plain value, which the shard changes on its loop
// and the classes of aggregate/, update/ and reply/ read there.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "wire/messages.h"

namespace sluice::server {

class JobWorkers {
 public:
  // Replaces all workers by those of `roster`, which may list servers as well.
  void Set(const std::vector<wire::NodeInfo>& roster);

  // Whether `sender` is a worker of the roster that is not dead, with the incarnation that the roster names.
  bool IsMember(const wire::Sender& sender) const;
  // The ranks of the workers that take part in rounds: those that are neither dead nor finished.
  const std::set<uint32_t>& live() const { return live_; }
  // The number of all workers, dead and finished ones too. 1 before the first roster.
  uint32_t count() const { return count_; }
  // Whether worker 0 has finished without an error: it neither initialises a key nor sets a weight any more.
  bool worker_0_left() const { return worker_0_left_; }

 private:
  std::map<uint32_t, uint64_t> incarnations_;  // by rank; workers that are not dead
  std::set<uint32_t> live_;
  uint32_t count_ = 1;
  bool worker_0_left_ = false;
};

}  // namespace sluice::server
