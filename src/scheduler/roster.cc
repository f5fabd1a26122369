// Membership: accepts or refuses registrations, assigns ranks, decides the
// number of key-owning threads per server, and tracks states and heartbeats.
//
// Invariants: (role, rank) and incarnation are unique; a member never leaves the
// list, only its state changes; the epoch grows with every change of a state or
// an incarnation after joining. The scheduler calls it on its loop's thread.
#include "scheduler/roster.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::scheduler {
namespace {

constexpr uint32_t kMostThreads = 256;
constexpr const char* kConfiguredWith = " was told ";

// The number of key-owning threads that the server was configured with; 0 when it was not configured.
uint32_t ThreadsOf(const wire::Register& request) {
  return request.shard_addresses.empty() ? request.server_threads
                                         : static_cast<uint32_t>(request.shard_addresses.size());
}

}  // namespace

std::string Roster::NameOf(const wire::NodeInfo& node) {
  return StrCat(wire::Name(node.role), " ", node.rank, " (host ", node.host, ", pid ", node.pid, ")");
}

const Member* Roster::At(wire::Role role, uint32_t rank) const {
  for (const Member& member : members_) {
    if (member.info.role == role && member.info.rank == rank) return &member;
  }
  return nullptr;
}

uint32_t Roster::CountOf(wire::Role role) const {
  return static_cast<uint32_t>(
      std::count_if(members_.begin(), members_.end(), [&](const Member& m) { return m.info.role == role; }));
}

Result<uint32_t> Roster::ChooseRank(const wire::Register& request) const {
  const uint32_t wanted = Wanted(request.role);
  if (request.requested_rank >= 0 && static_cast<uint32_t>(request.requested_rank) < wanted &&
      At(request.role, static_cast<uint32_t>(request.requested_rank)) == nullptr) {
    return static_cast<uint32_t>(request.requested_rank);
  }
  for (uint32_t rank = 0; rank < wanted; ++rank) {
    if (At(request.role, rank) == nullptr) return rank;
  }
  return Fail(ErrorCode::kResourceExhausted, "the job already has its ", wanted, " ",
              wire::Name(request.role), "s; one more has come from host ", request.host, ", pid ",
              request.pid, "; a restarted one gets its place back by its identity (SLUICE_NODE_ID)");
}

Status Roster::ValidateJobShape(const wire::Register& request) const {
  if (request.role == wire::Role::kScheduler) {
    return Fail(ErrorCode::kInvalidArgument, "a second scheduler tried to join from host ", request.host);
  }
  if (request.num_workers != num_workers_ || request.num_servers != num_servers_) {
    return Fail(ErrorCode::kInvalidArgument, wire::Name(request.role), " on host ", request.host, " expects ",
                request.num_workers, " workers and ", request.num_servers, " servers, but this job has ",
                num_workers_, " and ", num_servers_, " (DMLC_NUM_WORKER, DMLC_NUM_SERVER)");
  }
  if (const Duration interval = std::chrono::milliseconds(request.heartbeat_ms); interval > patience_ / 2) {
    return Fail(ErrorCode::kInvalidArgument, wire::Name(request.role), " on host ", request.host,
                " sends a heartbeat every ", ToSeconds(interval),
                " s (PS_HEARTBEAT_INTERVAL), but the scheduler takes who is silent for ",
                ToSeconds(patience_),
                " s for dead (PS_HEARTBEAT_TIMEOUT), which must be at least twice as long; give both "
                "variables to all processes of the job");
  }
  return request.role == wire::Role::kServer ? ValidateThreads(request) : Status::Ok();
}

Status Roster::ValidateThreads(const wire::Register& request) const {
  const uint32_t threads = ThreadsOf(request);
  if (threads > kMostThreads) {
    return Fail(ErrorCode::kInvalidArgument, "the server on host ", request.host, " was told to run ",
                threads, " key-owning threads; at most ", kMostThreads,
                " are possible (SLUICE_SERVER_THREADS)");
  }
  if (threads == 0 || !shards_per_server_ || threads == *shards_per_server_) return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, "the server on host ", request.host, " was told to run ",
              Counted(threads, "key-owning thread"), ", but ", decision_text_, *shards_per_server_,
              "; SLUICE_SERVER_THREADS, where it is set, must be the same on the scheduler and all servers");
}

// The number is the same for the whole job and is decided
// once; servers that join later run the same number.
void Roster::DecideThreads(const Member& newcomer, const wire::Register& request) {
  if (shards_per_server_ || request.role != wire::Role::kServer) return;
  if (const uint32_t threads = ThreadsOf(request); threads != 0) {
    shards_per_server_ = threads;
    decision_text_ = NameOf(newcomer.info) + kConfiguredWith;
  } else if (CountOf(wire::Role::kServer) == num_servers_) {
    uint32_t least = kMostThreads;
    for (const Member& member : members_) {
      if (member.info.role == wire::Role::kServer) least = std::min(least, member.offered_threads);
    }
    shards_per_server_ = least;
    decision_text_ = "the other servers of this job run ";
  }
}

bool Roster::complete() const {
  return CountOf(wire::Role::kWorker) == num_workers_ && CountOf(wire::Role::kServer) == num_servers_ &&
         std::all_of(members_.begin(), members_.end(), [](const Member& m) {
           return m.info.role != wire::Role::kServer || !m.info.shard_addresses.empty();
         });
}

Result<Roster::Registration> Roster::Register(Time now, transport::PeerId peer, const wire::Sender& sender,
                                              const wire::Register& request, uint64_t answers) {
  if (Status status = ValidateJobShape(request); !status) return status.failure();
  for (Member& member : members_) {
    if (member.info.role != request.role) continue;
    if (member.info.incarnation == sender.incarnation) {
      member.OnMessageFrom(now, peer);
      if (member.info.shard_addresses.empty()) member.info.shard_addresses = request.shard_addresses;
      return Registration{Standing::kKnown, &member};
    }
    if (std::count(member.former.begin(), member.former.end(), sender.incarnation) > 0)
      return Registration{Standing::kReplaced, &member};
  }
  for (Member& member : members_) {
    if (!request.identity.empty() && member.info.role == request.role && member.identity == request.identity)
      return Claim(member, sender, answers);
  }
  const Result<uint32_t> rank = ChooseRank(request);
  if (!rank) return rank.failure();
  Member& member = members_.emplace_back();
  member.info.role = request.role;
  member.info.rank = rank.value();
  member.identity = request.identity;
  Occupy(now, member, peer, sender, request);
  DecideThreads(member, request);
  return Registration{Standing::kJoined, &member};
}

Result<Roster::Registration> Roster::Claim(Member& member, const wire::Sender& sender, uint64_t answers) {
  if (member.info.state == wire::NodeState::kFinished) {
    return Fail(ErrorCode::kFailedPrecondition, "identity '", member.identity,
                "' (SLUICE_NODE_ID) is that of ", NameOf(member.info),
                ", which has finished; a job takes no finished node back");
  }
  if (member.claim.incarnation != sender.incarnation) {
    member.claim = {sender.incarnation, next_challenge_++};
  } else if (answers == member.claim.challenge) {
    return Registration{Standing::kReturned, &member};
  }
  return Registration{Standing::kClaimant, &member};
}

void Roster::Occupy(Time now, Member& member, transport::PeerId peer, const wire::Sender& sender,
                    const wire::Register& request) {
  member.info.incarnation = sender.incarnation;
  member.info.state = wire::NodeState::kAlive;
  member.info.host = request.host;
  member.info.pid = request.pid;
  member.info.shard_addresses = request.shard_addresses;
  member.offered_threads = std::clamp(request.default_server_threads, 1u, kMostThreads);
  member.OnMessageFrom(now, peer);
}

void Roster::Replace(Time now, Member& member, transport::PeerId peer, const wire::Sender& sender,
                     const wire::Register& request) {
  constexpr size_t kFormerKept = 16;
  member.former.push_back(member.info.incarnation);
  if (member.former.size() > kFormerKept) member.former.pop_front();
  member.claim = {};
  Occupy(now, member, peer, sender, request);
  ++epoch_;
}

Member* Roster::Find(const wire::Sender& sender) {
  for (Member& member : members_) {
    if (member.info.role == sender.role && member.info.incarnation == sender.incarnation) return &member;
  }
  return nullptr;
}

const Member* Roster::FindSuccessor(const wire::Sender& sender) const {
  for (const Member& member : members_) {
    if (member.info.role == sender.role &&
        std::count(member.former.begin(), member.former.end(), sender.incarnation) > 0)
      return &member;
  }
  return nullptr;
}

void Roster::SetState(Member& member, wire::NodeState state) {
  if (member.info.state == state) return;
  member.info.state = state;
  ++epoch_;
}

std::vector<const Member*> Roster::ExpireSilent(Time now, Duration timeout) {
  std::vector<const Member*> dead;
  for (Member& member : members_) {
    if (member.info.state != wire::NodeState::kAlive || now - member.last_heard < timeout) continue;
    member.info.state = wire::NodeState::kDead;
    dead.push_back(&member);
  }
  if (!dead.empty()) ++epoch_;
  return dead;
}

size_t Roster::NumDead() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(), [](const Member& m) {
    return m.info.state == wire::NodeState::kDead;
  }));
}

bool Roster::AllAre(wire::Role role, wire::NodeState state) const {
  return CountOf(role) == Wanted(role) && std::all_of(members_.begin(), members_.end(), [&](const Member& m) {
           return m.info.role != role || m.info.state == state;
         });
}

std::vector<wire::NodeInfo> Roster::Infos() const {
  std::vector<wire::NodeInfo> infos;
  infos.reserve(members_.size());
  for (const Member& member : members_) infos.push_back(member.info);
  std::sort(infos.begin(), infos.end(), [](const wire::NodeInfo& a, const wire::NodeInfo& b) {
    return std::pair(a.role, a.rank) < std::pair(b.role, b.rank);
  });
  return infos;
}

std::string Roster::JoinedText() const {
  std::vector<std::string> names;
  for (const wire::NodeInfo& node : Infos()) names.push_back(NameOf(node));
  return names.empty() ? "nobody" : StrJoin(names);
}

std::string Roster::MissingText() const {
  std::vector<std::string> names;
  for (const wire::Role role : {wire::Role::kServer, wire::Role::kWorker}) {
    for (uint32_t rank = 0; rank < Wanted(role); ++rank) {
      const Member* member = At(role, rank);
      if (member == nullptr) {
        names.push_back(StrCat(wire::Name(role), " ", rank));
      } else if (role == wire::Role::kServer && shards_per_server_ && member->info.shard_addresses.empty()) {
        names.push_back(StrCat("the addresses of server ", rank));
      }
    }
  }
  constexpr size_t kShown = 20;
  const size_t rest = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - rest);
  return StrJoin(names) + (rest > 0 ? StrCat(" and ", rest, " more") : "");
}

wire::Stop ReplacedBy(const Member& member) {
  return {wire::Stop::Reason::kFailed,
          StrCat("this process was replaced by ", Roster::NameOf(member.info),
                 ", which brought its identity '", member.identity, "' (SLUICE_NODE_ID)")};
}

Time NextSilence(const Roster& roster, Duration timeout) {
  Time next = Time::max();
  for (const Member& member : roster.members()) {
    if (member.info.state == wire::NodeState::kAlive) next = std::min(next, member.last_heard + timeout);
  }
  return next;
}

}  // namespace sluice::scheduler
