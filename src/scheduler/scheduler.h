// The scheduler's state machine. It owns the rendezvous, the key table, the barriers and the end of
// the job, passes the optimiser on to the servers, and detects deaths. It is deterministic: no clock,
// no thread, no socket. docs/design/protocol.md describes the messages that it receives and sends.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/log.h"
#include "scheduler/barriers.h"
#include "scheduler/key_table.h"
#include "scheduler/partial_declarations.h"
#include "scheduler/roster.h"

namespace sluice::scheduler {

struct Options {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  uint32_t num_workers = 1;
  uint32_t num_servers = 1;
  // SLUICE_SERVER_THREADS of the scheduler; empty when it is not set, and the servers decide (Roster).
  std::optional<uint32_t> shards_per_server = 1;
  std::optional<int64_t> bigarray_bound;  // plan::PlacementOptions
  int64_t part_bytes = plan::PlacementOptions{}.part_bytes;
  Duration heartbeat_timeout = 10s;
  Duration report_interval = 10s;  // between reports of the missing nodes
  Duration repeat_interval = 1s;   // for AnnounceKeys, SetOptimizer and Stop, until acknowledged
  Duration rendezvous_timeout = std::chrono::minutes(10);
  std::function<wire::Counters()> process_counters;  // added to the scheduler's own counters in Stats
  std::function<void(const wire::NodeInfo&)> on_joined;
  std::function<void()> on_complete;  // called when all nodes have joined, before any of them is notified
  // Called every report_interval while nodes are missing. It returns true when its
  // receiver reports the missing nodes itself; the scheduler then does not log them.
  std::function<bool()> on_waiting;
  // How long the scheduler waits, once the job has finished or failed, for all members to
  // receive the Stop and leave. failure_timeout is shorter than the time that launchers
  // leave between SIGTERM and SIGKILL, because a member that died unnoticed never answers.
  Duration finish_timeout = 5s, failure_timeout = 2s;
};

class Scheduler final : public transport::Machine {
 public:
  explicit Scheduler(const Options& options);

  void OnStart(Time now, transport::Network& network) override;
  void OnMessage(Time now, transport::PeerId from, wire::Message message,
                 transport::Network& network) override;
  void OnClosed(Time now, transport::PeerId peer, transport::Network& network) override;
  void OnTimer(Time now, transport::Network& network) override;
  Time NextTimer() const override;
  bool Done() const override { return done_; }
  Duration Linger() const override;
  void OnEnd(Time now, const std::string& why, transport::Network& network) override;
  std::string DumpState(Time now) const override;

  // Fails the job with `message`, for example on SIGTERM. Members are still notified;
  // Done() becomes true when they have left, or after Options::failure_timeout.
  void FailJob(Time now, const std::string& message, transport::Network& network);
  // How the job ended. The result is meaningful once Done() is true.
  const wire::Stop& outcome() const { return outcome_; }
  size_t NumDead() const { return roster_.NumDead(); }

 private:
  // A request of a worker that every server must acknowledge before the worker gets its answer.
  struct Relay {
    wire::Body body;                 // AnnounceKeys or SetOptimizer
    std::map<uint32_t, bool> acked;  // by server rank
    uint64_t requester = 0;  // the worker's incarnation: a worker that connects again has another peer
    uint64_t request_id = 0;
    wire::Body answer;
    Time next_repeat{};
  };

  // joining.cc
  void OnRegister(Time now, transport::PeerId from, const wire::Message& message,
                  transport::Network& network);
  void OnReturn(Time now, transport::PeerId from, Member& member, const wire::Message& message,
                transport::Network& network);
  wire::Welcome WelcomeFor(const Member& member) const;
  void Complete(Time now, transport::Network& network);
  // Called once, when the job is complete: keys are distributed over that many shards.
  void CountShards();
  // Sends a Welcome to the servers that wait for the number of their threads.
  void SendThreadCount(transport::Network& network);
  void RefuseToJoin(transport::PeerId from, const Failure& failure, transport::Network& network);
  // Answers a message of a process that is no longer a member: a Leave with
  // an Ack, so that the process can end, and any other message with `why`.
  void RejectStale(transport::PeerId from, const wire::Message& message, wire::Stop why,
                   transport::Network& network);
  static wire::Stop ReplacedBy(const Member& member);

  // scheduler.cc
  void Handle(Time now, transport::PeerId from, Member& member, wire::Message& message,
              transport::Network& network);
  void OnAskedToEnd(const Member& member, transport::Network& network);
  void OnDeclare(Time now, const Member& member, const wire::Message& message, transport::Network& network);
  void OnDeclarePart(const Member& member, const wire::Message& message, transport::Network& network);
  void OnSetOptimizer(Time now, const Member& member, const wire::Message& message,
                      transport::Network& network);
  void OnBarrier(const Member& member, const wire::Message& message, transport::Network& network);
  void OnAwaitOptimizer(const Member& member, const wire::Message& message, transport::Network& network);
  void OnOptimizerSet(uint32_t store, transport::Network& network);
  bool WorkerZeroHasLeft() const;
  void RefuseOptimizer(transport::PeerId peer, uint64_t request, transport::Network& network);
  void OnServerAck(const Member& member, uint64_t relay_id, transport::Network& network);

  uint64_t StartRelay(Time now, Relay relay, transport::Network& network);
  // The relay of the same request of the same worker; null: it has none.
  const Relay* FindRelay(const Member& member, uint64_t request_id) const;
  void SendStillWaiting(const Member& member, const Relay& relay, transport::Network& network);
  void SendRelay(Time now, uint64_t id, Relay& relay, transport::Network& network);
  Time NextSilence() const;
  void BroadcastMembership(transport::Network& network);
  void Send(transport::PeerId to, wire::Body body, transport::Network& network, uint64_t in_reply_to = 0,
            uint64_t id = 0);

  // ending.cc
  void OnLeave(Time now, Member& member, const wire::Message& message, transport::Network& network);
  void OnDeath(Time now, const std::vector<const Member*>& dead, const std::string& how,
               transport::Network& network);
  // `reported_by` is the member whose failure ends the job and which
  // reports that failure itself; null when no other process reports it.
  void StopJob(Time now, wire::Stop stop, transport::Network& network, const Member* reported_by = nullptr);
  void SendStop(Time now, transport::Network& network);
  wire::Stop StopMessage() const;
  bool IsAwaited(const Member& member) const;
  bool AllHaveLeft() const;
  void ExpireMembersThatDidNotLeave(Time now);
  void EndUnlessAwaiting(Time now);

  const Options options_;
  Roster roster_;
  KeyTable keys_;
  PartialDeclarations partial_declarations_;
  Barriers barriers_;
  std::map<uint64_t, Relay> relays_;
  uint64_t next_relay_ = 1;
  // The answers to the last kAnswersKept SetOptimizer requests, by (incarnation, request id).
  std::map<std::pair<uint64_t, uint64_t>, wire::Body> answered_;
  std::deque<std::pair<uint64_t, uint64_t>> answered_order_;
  std::set<uint32_t> with_optimizer_;  // stores whose optimiser all servers have
  // The id of each pending AwaitOptimizer request, by store and worker.
  std::map<std::pair<uint32_t, transport::PeerId>, uint64_t> await_optimizer_;
  wire::Counters counters_;
  LogLimiter limiter_{5, 10s};

  bool complete_ = false;
  bool stopping_ = false;
  bool asked_to_end_ = false;                // a worker received SIGTERM or SIGINT
  bool awaits_no_member_ = false;            // while stopping: the scheduler waits for no member any more
  std::set<uint64_t> refused_incarnations_;  // incarnations that tried to join while stopping
  bool done_ = false;
  wire::Stop outcome_;
  Time started_{}, next_report_{}, next_stop_{}, stop_deadline_{}, latecomers_until_{};
};

}  // namespace sluice::scheduler
