// Barriers over sets of members: released when all have arrived.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/roster.h"

namespace sluice::scheduler {

class Barriers {
 public:
  using Member = std::pair<wire::Role, uint32_t>;

  // Who else waits, with the request to answer; all of them when the barrier is complete.
  struct Waiter {
    Member member;
    transport::PeerId peer;
    uint64_t request_id;
  };
  struct Arrival {
    bool released = false;
    std::vector<Waiter> waiters;  // released: everybody to be acknowledged
    std::string missing;          // not released: in words
  };

  // A member's arrival, or its repeat. An arrival at a barrier whose members or group differ from the first
  // one's is an error.
  Result<Arrival> Arrive(const wire::Barrier& barrier, const Waiter& who, const Roster& roster);
  // "barrier 'x': waiting for worker 1", one line each.
  std::string Describe() const;

 private:
  struct Open {
    wire::Barrier request;
    std::set<Member> expected;
    std::map<Member, Waiter> arrived;
  };
  static std::set<Member> Expected(const wire::Barrier& barrier, const Roster& roster);
  static std::string MissingText(const Open& open);

  std::map<std::string, Open> open_;
  std::map<Member, std::string> last_released_;  // a repeat whose release was lost is acknowledged again
};

}  // namespace sluice::scheduler
