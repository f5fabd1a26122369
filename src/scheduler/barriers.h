// Barriers over sets of members: a barrier is released when all members
// of its set have arrived. One thread (the scheduler's loop) uses it.
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

  // A member that waits, with the request to answer.
  struct Waiter {
    Member member;
    transport::PeerId peer;
    uint64_t request_id;
  };
  struct Arrival {
    bool released = false;
    std::vector<Waiter> waiters;              // released: all members to be answered
    std::shared_ptr<const std::string> text;  // released: the text that all of them receive
    std::string missing;                      // not released: names of the members that have not arrived
  };

  // Registers a member's arrival; a repeated arrival changes nothing. Fails with
  // kInvalidArgument when the caller is no member of the barrier, names other members than the
  // first arrival did or a worker that the job does not have, or waits in kMaxOpen barriers
  // already, and with kUnavailable when the barrier waits for a worker that has left.
  Result<Arrival> Arrive(const wire::Barrier& barrier, const Waiter& who, const Roster& roster);
  // Called after a worker has left. Removes the barriers that wait
  // for a worker that has left, and returns all their waiters.
  std::vector<std::pair<Waiter, Failure>> TakeUnsatisfiable(const Roster& roster);
  // One line "barrier 'x': waiting for worker 1" for each open barrier.
  std::string Describe() const;

 private:
  struct Open {
    std::set<Member> expected;
    std::map<Member, Waiter> arrived;
    std::string text;  // the text of the lowest-ranked worker that has arrived
  };
  struct Released {
    std::string id;
    std::shared_ptr<const std::string> text;
  };
  static std::set<Member> Expected(const wire::Barrier& barrier, const Roster& roster);
  static std::string NamesOf(const std::set<Member>& members);  // "worker 0, worker 2"
  static std::string MissingText(const Open& open);
  // A failure when the barrier waits for a worker that has left; nullopt when all members may still arrive.
  // A barrier with servers among its members never fails this way: the end of the job notifies them.
  static std::optional<Failure> UnsatisfiableReason(const std::string& id, const Open& open,
                                                    const Roster& roster);
  static std::optional<Member> FirstWorker(const std::map<Member, Waiter>& arrived);

  size_t NumOpenOf(const Member& member) const;

  // Bound on the open barriers that one member waits in. Each belongs to
  // a thread of its own, or to a caller that gave up at its deadline.
  static constexpr size_t kMaxOpen = 1024;
  std::map<std::string, Open> open_;
  // Null when the barrier was not released, or was released too long ago.
  const Released* FindReleased(const Member& member, const std::string& id) const;
  void Remember(const Member& member, const Released& released);

  // The barriers that were released last, by member: a member whose
  // BarrierReleased was lost repeats its arrival and gets the same answer. Several
  // are kept, since several threads of one node may each wait in a barrier.
  std::map<Member, std::deque<Released>> released_;
};

}  // namespace sluice::scheduler
