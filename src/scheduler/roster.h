// Who is in the job: ranks, incarnations, heartbeats, deaths. Every change of the living makes a new epoch.
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
  void HeardBy(Time now, transport::PeerId from) {
    last_heard = now;
    peer = from;
    closed = false;
  }

  wire::NodeInfo info;
  std::string identity;
  uint32_t offered_threads = 1;  // of a server: shards that it would run by itself
  transport::PeerId peer;
  Time last_heard{};
  bool closed = false;          // its connection has, since it was last heard
  std::deque<uint64_t> former;  // incarnations that were replaced, the newest ones: never heard again
  // Who else brings this identity, and the question it has to answer before that is believed.
  struct Claim {
    uint64_t incarnation = 0;
    uint64_t challenge = 0;
  } claim;
};

class Roster {
 public:
  // `shards_per_server`, key-owning threads of each server: as the scheduler was told, or nothing. Then the
  // first server decides that was told a number, and where none was, the least that a server offers, once all
  // have come. `patience`: with how long a silence a node counts as dead.
  Roster(uint32_t num_workers, uint32_t num_servers, std::optional<uint32_t> shards_per_server = 1,
         Duration patience = Duration::max())
      : num_workers_(num_workers),
        num_servers_(num_servers),
        patience_(patience),
        shards_per_server_(shards_per_server),
        decided_by_("the scheduler was told ") {}

  enum class Standing : uint8_t {
    kJoined,    // new: the wished rank when that is free, else the smallest free one
    kKnown,     // registered before
    kReplaced,  // a former process of the member; it must end
    kClaimant,  // brings the member's identity, and has not shown yet that it lives: member->claim
    kReturned,  // brings the member's identity and lives: Replace() gives it the place
  };
  struct Registration {
    Standing standing = Standing::kKnown;
    Member* member = nullptr;
  };
  // Takes a node in, or finds out who it is. `answers`: the challenge that this Register answers, or 0. A
  // Register alone proves nothing about an identity: it may be a belated one of a process that is gone.
  Result<Registration> Register(Time now, transport::PeerId peer, const wire::Sender& sender,
                                const wire::Register& request, uint64_t answers = 0);
  // A restarted node takes its former process's place: its rank, a new incarnation, a new epoch.
  void Replace(Time now, Member& member, transport::PeerId peer, const wire::Sender& sender,
               const wire::Register& request);
  // The living, dead or finished member that sent this; null for strangers and for former processes.
  Member* Find(const wire::Sender& sender);
  // The member whose former process sent this, or null.
  const Member* FindSuccessor(const wire::Sender& sender) const;
  // Marks those silent for `timeout` dead and returns them; they make one new epoch.
  std::vector<const Member*> ExpireSilent(Time now, Duration timeout);
  void SetState(Member& member, wire::NodeState state);  // a new epoch when it changes

  // Everybody has come, and every server has told its addresses.
  bool complete() const;
  // Nothing: not decided yet.
  std::optional<uint32_t> shards_per_server() const { return shards_per_server_; }
  bool AllAre(wire::Role role, wire::NodeState state) const;
  size_t NumDead() const;
  uint64_t epoch() const { return epoch_; }
  std::vector<wire::NodeInfo> Infos() const;  // by role (servers first) and rank
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
  std::string decided_by_;  // for messages, before the number
  std::vector<Member> members_;
  uint64_t epoch_ = 1;
  uint64_t next_challenge_ = 1;
};

}  // namespace sluice::scheduler
