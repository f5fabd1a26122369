// Barriers over sets of members: released when all have arrived.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
    std::vector<Waiter> waiters;              // released: everybody to be answered
    std::shared_ptr<const std::string> text;  // released: for them
    std::string missing;                      // not released: in words
  };

  // A member's arrival, or its repeat. An error: no member of it, or it names other members than the first
  // one that came, or members that the job does not have; kUnavailable: it waits for a worker that has left.
  Result<Arrival> Arrive(const wire::Barrier& barrier, const Waiter& who, const Roster& roster);
  // When a worker has left: who waits for it in vain. Their barriers are closed.
  std::vector<std::pair<Waiter, Failure>> TakeUnsatisfiable(const Roster& roster);
  // "barrier 'x': waiting for worker 1", one line each.
  std::string Describe() const;

 private:
  struct Open {
    std::set<Member> expected;
    std::map<Member, Waiter> arrived;
    std::string text;  // of the lowest worker that has arrived
  };
  struct Released {
    std::string id;
    std::shared_ptr<const std::string> text;
  };
  static std::set<Member> Expected(const wire::Barrier& barrier, const Roster& roster);
  static std::string NamesOf(const std::set<Member>& members);  // "worker 0, worker 2"
  static std::string MissingText(const Open& open);
  // That a worker whom it waits for has left; nothing where all may come. Where servers wait too the end of
  // the job tells them.
  static std::optional<Failure> UnsatisfiableReason(const std::string& id, const Open& open,
                                                    const Roster& roster);
  static std::optional<Member> FirstWorker(const std::map<Member, Waiter>& arrived);

  size_t NumOpenOf(const Member& member) const;

  // Of one member: each waits on a thread of its own, or was given up by its deadline.
  static constexpr size_t kMaxOpen = 1024;
  std::map<std::string, Open> open_;
  // Null when it was not.
  const Released* FindReleased(const Member& member, const std::string& id) const;
  void Remember(const Member& member, const Released& released);

  // A repeat whose release was lost is answered again. By member; the newest ones, since the threads of a
  // node may each wait in one.
  std::map<Member, std::deque<Released>> released_;
};

}  // namespace sluice::scheduler
