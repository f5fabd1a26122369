// The members of the job: ranks, incarnations, heartbeats and deaths. Every change in the
// set of living members increases the epoch. One thread (the scheduler's loop) uses it.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/transport.h"

namespace sluice::scheduler {

struct Member {
  void OnMessageFrom(Time now, transport::PeerId from) {
    last_heard = now;
    peer = from;
    closed = false;
  }

  wire::NodeInfo info;
  std::string identity;
  uint32_t offered_threads = 1;  // servers: number of shards without SLUICE_SERVER_THREADS
  transport::PeerId peer;
  Time last_heard{};
  bool closed = false;  // whether its connection has closed since its last message
  // The newest incarnations that were replaced in this place; their messages are never accepted again.
  std::deque<uint64_t> former;
  // Another process that registers with this member's identity, and the number that it has to
  // return (protocol.md, "A node that comes back") before the scheduler believes that it lives.
  struct Claim {
    uint64_t incarnation = 0;
    uint64_t challenge = 0;
  } claim;
};

class Roster {
 public:
  // `shards_per_server` is the number of key-owning threads of each server as the scheduler's configuration
  // sets it. Without a value, the first server that registers with a configured number decides; when none
  // has one, the smallest number that any server offers is taken once all servers have registered. A node
  // that is silent for `patience` counts as dead; its heartbeat interval may be at most half of that.
  Roster(uint32_t num_workers, uint32_t num_servers, std::optional<uint32_t> shards_per_server = 1,
         Duration patience = Duration::max())
      : num_workers_(num_workers),
        num_servers_(num_servers),
        patience_(patience),
        shards_per_server_(shards_per_server),
        decision_text_("the scheduler was told ") {}

  enum class Standing : uint8_t {
    kJoined,    // new: it has the requested rank if that was free, else the smallest free one
    kKnown,     // this process has registered before
    kReplaced,  // a former process of the member, which must end
    kClaimant,  // has the member's identity, but has not answered member->claim.challenge yet
    kReturned,  // has the member's identity and has answered: Replace() may give it the place
  };
  struct Registration {
    Standing standing = Standing::kKnown;
    Member* member = nullptr;
  };
  // Adds a new node, or finds the member that a process belongs to. `answers` is the challenge
  // that this Register replies to, or 0. A Register without the right challenge never replaces
  // a member: it may be a delayed message of a process that has ended. Fails with
  // kInvalidArgument when the node's configuration contradicts the job's, kResourceExhausted
  // when all places are taken, and kFailedPrecondition for the identity of a finished member.
  Result<Registration> Register(Time now, transport::PeerId peer, const wire::Sender& sender,
                                const wire::Register& request, uint64_t answers = 0);
  // Gives the place of a member to its restarted process:
  // the rank stays, the incarnation and the epoch are new.
  void Replace(Time now, Member& member, transport::PeerId peer, const wire::Sender& sender,
               const wire::Register& request);
  // The member that sent this, living, dead or finished; null for
  // processes that never joined and for those that were replaced.
  Member* Find(const wire::Sender& sender);
  // The member whose former, replaced process sent this, or null.
  const Member* FindSuccessor(const wire::Sender& sender) const;
  // Marks the members that have been silent for `timeout` as dead and
  // returns them. All of them together increase the epoch by one.
  std::vector<const Member*> ExpireSilent(Time now, Duration timeout);
  void SetState(Member& member, wire::NodeState state);  // increases the epoch if it changes

  // True when all workers and servers have registered, and every server has sent its addresses.
  bool complete() const;
  // Empty until it is decided.
  std::optional<uint32_t> shards_per_server() const { return shards_per_server_; }
  bool AllAre(wire::Role role, wire::NodeState state) const;
  size_t NumDead() const;
  uint64_t epoch() const { return epoch_; }
  std::vector<wire::NodeInfo> Infos() const;  // sorted by role (servers first) and rank
  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  std::string JoinedText() const;
  std::string MissingText() const;  // "worker 1, worker 2": empty when complete
  uint32_t num_workers() const { return num_workers_; }
  uint32_t num_servers() const { return num_servers_; }

  static std::string NameOf(const wire::NodeInfo& node);  // "worker 1 (host a, pid 17)"

 private:
  Status ValidateJobShape(const wire::Register& request) const;
  Status ValidateThreads(const wire::Register& request) const;
  void DecideThreads(const Member& newcomer, const wire::Register& request);
  Result<Registration> Claim(Member& member, const wire::Sender& sender, uint64_t answers);
  static void Occupy(Time now, Member& member, transport::PeerId peer, const wire::Sender& sender,
                     const wire::Register& request);
  Result<uint32_t> ChooseRank(const wire::Register& request) const;
  uint32_t CountOf(wire::Role role) const;
  uint32_t Wanted(wire::Role role) const { return role == wire::Role::kWorker ? num_workers_ : num_servers_; }
  const Member* At(wire::Role role, uint32_t rank) const;

  const uint32_t num_workers_, num_servers_;
  const Duration patience_;
  std::optional<uint32_t> shards_per_server_;
  std::string decision_text_;  // start of a message about the number: what decided it
  std::vector<Member> members_;
  uint64_t epoch_ = 1;
  uint64_t next_challenge_ = 1;
};

// The Stop for a process whose place `member` has taken.
wire::Stop ReplacedBy(const Member& member);
// The time at which the next living member will have been silent for `timeout`.
Time NextSilence(const Roster& roster, Duration timeout);

}  // namespace sluice::scheduler
